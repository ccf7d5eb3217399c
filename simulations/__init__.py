"""Whatever is random: simulators, noise streams and the algorithms of the papers."""
