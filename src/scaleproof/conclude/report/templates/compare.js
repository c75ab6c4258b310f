// What is folded opens on paper.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => (part.open = true)));
