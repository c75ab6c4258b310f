// What is folded, and the way back of a figure, which without scripts links to its files.
// What is folded opens where a link leads into it, and on paper.
const reveal = () => {
  let part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  while ((part = part?.closest("details:not([open])"))) part.open = true;
};
addEventListener("hashchange", reveal);
reveal();
const folded = document.querySelectorAll(".fold, #cells details");
addEventListener("beforeprint", () => folded.forEach((part) => (part.open = true)));
const dialog = document.getElementById("why"),
  list = dialog.querySelector("dl");
document.addEventListener("click", (event) => {
  const link = event.target.closest("a.figure");
  if (!link || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const source = [...document.querySelectorAll(`tr[data-file][data-cell="${CSS.escape(link.dataset.cell)}"]`)];
  const files = source.map((row) => `${row.dataset.file} (sha256 ${row.dataset.sha})`).join("; ");
  const facts = [
    ["figure", link.id || link.dataset.id],
    ["value", link.title],
    ["how", link.dataset.how],
    ["from", files],
    ["check", `scaleproof why ${document.body.dataset.folder} ${link.dataset.id}`],
  ];
  list.replaceChildren(
    ...facts
      .filter((f) => f[1])
      .flatMap(([name, text]) => {
        const term = document.createElement("dt"),
          value = document.createElement("dd");
        term.textContent = name;
        value.textContent = text;
        return [term, value];
      }),
  );
  dialog.showModal();
});
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") document.querySelector("figure:target .close")?.click();
});
