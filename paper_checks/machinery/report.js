"use strict";
const cards = [...document.querySelectorAll("article")];
const search = document.getElementById("search");
const filters = [...document.querySelectorAll("button[data-filter]")];
const plain = (text) => text.toLowerCase().replace(/\s+/g, " ").trim();
const texts = new Map(cards.map((card) => [card, plain(card.textContent)]));

function show() {
  const phrase = plain(search.value);
  const pressed = { verdict: [], evidence: [] };
  for (const button of filters) {
    if (button.getAttribute("aria-pressed") === "true") pressed[button.dataset.filter].push(button.dataset.value);
  }
  let count = 0;
  for (const card of cards) {
    const fits = texts.get(card).includes(phrase)
      && Object.entries(pressed).every(([name, values]) => !values.length || values.includes(card.dataset[name]));
    card.hidden = !fits;
    count += fits;
  }
  for (const section of document.querySelectorAll("section.claims")) {
    section.hidden = ![...section.querySelectorAll("article")].some((card) => !card.hidden);
  }
  document.getElementById("shown").textContent = `${count} of ${cards.length} claims`;
}

function toggle(button) {
  const pressed = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", pressed);
  return pressed;
}

function unfold(open) {
  for (const details of document.querySelectorAll("details")) details.open = open;
}

function step(by) {
  const visible = cards.filter((card) => !card.hidden);
  const here = visible.indexOf(document.activeElement.closest("article"));
  const next = visible[Math.min(Math.max(here + by, 0), visible.length - 1)];
  if (next) { next.focus(); next.scrollIntoView(); }
}

search.addEventListener("input", show);
for (const button of filters) button.addEventListener("click", () => { toggle(button); show(); });
document.getElementById("unfold").addEventListener("click", (event) => unfold(toggle(event.currentTarget)));
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    search.value = "";
    for (const button of filters) button.setAttribute("aria-pressed", false);
    show();
  } else if (event.target === search) return;
  else if (event.key === "/") { event.preventDefault(); search.focus(); }
  else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
});
addEventListener("beforeprint", () => unfold(true));
// A link to a claim that a filter hides shows everything again.
addEventListener("hashchange", () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target && target.hidden) document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  if (target) target.focus();
});
