"use strict";
const cards = [...document.querySelectorAll("article")];
const search = document.getElementById("search");
const filters = [...document.querySelectorAll("button[data-filter]")];
const { greek, abbreviations } = JSON.parse(document.getElementById("names").textContent);

// -- names: as in names.py ---------------------------------------------------------------------------------------

function words(text) {
  const letters = text.normalize("NFKD").toLowerCase().replace(/[\u0300-\u036f]/g, "");
  const spelled = letters.replace(/[\u0370-\u03ff]/g, (letter) => (letter in greek ? ` ${greek[letter]} ` : letter));
  return (spelled.match(/[a-z]+|[0-9]+/g) ?? []).map((word) => (Object.hasOwn(abbreviations, word) ? abbreviations[word] : word));
}

function begins(name, typed, loosely = false) {
  const same = (word, part) => word === part || (loosely && /^[a-z]/.test(part) && (word ?? "").startsWith(part));
  return typed.length > 0 && typed.length <= name.length && typed.every((part, k) => same(name[k], part));
}

// -- search and filters ------------------------------------------------------------------------------------------

const keys = new Map(cards.map((card) => [card, `${card.dataset.keys}|${card.id.replace(/[-.]+/g, " ")}`.split("|").map((key) => key.split(" "))]));
const texts = new Map(cards.map((card) => [card, ` ${words(card.textContent).join(" ")} `]));

// The claims of that name, and those whose text has the words, the last of which may have only begun.
function found(phrase) {
  const typed = words(phrase);
  if (!typed.length) return new Set(cards);
  const named = (loosely) => cards.filter((card) => keys.get(card).some((key) => begins(key, typed, loosely)));
  const exactly = named(false);
  const inside = ` ${typed.join(" ")}${/[0-9]$/.test(typed.at(-1)) ? " " : ""}`;
  return new Set([...(exactly.length ? exactly : named(true)), ...cards.filter((card) => texts.get(card).includes(inside))]);
}

function pressed(name) {
  const on = filters.filter((button) => button.dataset.filter === name && button.getAttribute("aria-pressed") === "true");
  return on.map((button) => button.dataset.value);
}

function show() {
  const chosen = found(search.value);
  const verdicts = pressed("verdict"), evidence = pressed("evidence");
  const fits = (card) => chosen.has(card) && (!verdicts.length || verdicts.includes(card.dataset.verdict))
    && (!evidence.length || card.dataset.evidence.split(" ").some((kind) => evidence.includes(kind)));
  for (const card of cards) card.hidden = !fits(card);
  for (const section of document.querySelectorAll("section.claims")) {
    section.hidden = ![...section.querySelectorAll("article")].some((card) => !card.hidden);
  }
  const count = cards.filter((card) => !card.hidden).length;
  for (const section of document.querySelectorAll("section.unclaimed")) section.hidden = count < cards.length;
  document.getElementById("shown").textContent = `${count} of ${cards.length} claims`;
}

// -- the address holds the filters -------------------------------------------------------------------------------

function remember() {
  const state = new URLSearchParams();
  if (search.value.trim()) state.set("search", search.value.trim());
  for (const name of ["verdict", "evidence"]) for (const value of pressed(name)) state.append(name, value);
  const query = String(state) && `?${state}`;
  try { history.replaceState(null, "", location.pathname + query + location.hash); } catch { /* a page without address */ }
}

function recall() {
  const state = new URLSearchParams(location.search);
  search.value = state.get("search") ?? "";
  for (const button of filters) {
    button.setAttribute("aria-pressed", state.getAll(button.dataset.filter).includes(button.dataset.value));
  }
  show();
}

function changed() { show(); remember(); }

function clear() {
  search.value = "";
  for (const button of filters) button.setAttribute("aria-pressed", false);
  changed();
}

// A link shows its target: whatever hides it is cleared, and what it is folded in is opened.
function arrive() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.closest("[hidden]")) clear();
  for (let outer = target; outer; outer = outer.parentElement) if (outer.tagName === "DETAILS") outer.open = true;
  target.scrollIntoView();
  if (target.tagName === "ARTICLE") target.focus({ preventScroll: true });
}

// -- buttons and keys --------------------------------------------------------------------------------------------

function toggle(button) {
  const on = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", on);
  return on;
}

function step(by) {
  const visible = cards.filter((card) => !card.hidden);
  const here = visible.indexOf(document.activeElement.closest("article"));
  const next = visible[Math.min(Math.max(here + by, 0), visible.length - 1)];
  if (next) { next.focus({ preventScroll: true }); next.scrollIntoView(); }
}

search.addEventListener("input", changed);
for (const button of filters) button.addEventListener("click", () => { toggle(button); changed(); });
document.getElementById("unfold").addEventListener("click", (event) => {
  const open = toggle(event.currentTarget);
  for (const details of document.querySelectorAll("main details")) details.open = open;
});
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") clear();
  else if (event.target === search) return;
  else if (event.key === "/") { event.preventDefault(); search.focus(); }
  else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
});
addEventListener("hashchange", arrive);
addEventListener("beforeprint", () => { document.getElementById("legend").open = true; });

const filtersBar = document.querySelector("nav");
new ResizeObserver(() => {
  const stays = getComputedStyle(filtersBar).position === "sticky";
  document.documentElement.style.setProperty("--bar", stays ? `${filtersBar.offsetHeight}px` : "0px");
}).observe(filtersBar);
recall();
arrive();
