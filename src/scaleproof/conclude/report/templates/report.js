// Sorting and the way back of a figure. Without scripts the tables stand as they are, and figures link to their files.
for (const table of document.querySelectorAll("table.data")) {
  const heads = [...table.tHead.rows[0].cells],
    body = table.tBodies[0];
  heads.forEach((head, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down =
        head.getAttribute("aria-sort") === "descending" ||
        (!head.classList.contains("number") && !head.hasAttribute("aria-sort"));
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "ascending" : "descending");
      const value = (row) =>
        row.cells[i].dataset.order === undefined
          ? row.cells[i].textContent.trim()
          : Number(row.cells[i].dataset.order);
      const known = (row) => !head.classList.contains("number") || row.cells[i].dataset.order !== undefined;
      const compare = (a, b) =>
        typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
      const rows = [...body.rows],
        last = rows.filter((row) => !known(row));
      const first = rows.filter(known).sort((a, b) => (down ? 1 : -1) * compare(value(a), value(b)));
      body.append(...first, ...last);
    });
  });
}
// A field above every table of many rows: rows without its text are left out.
for (const table of document.querySelectorAll("table.data")) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < 8) continue;
  const field = document.createElement("input");
  field.type = "search";
  field.className = "filter";
  field.placeholder = "filter rows";
  field.setAttribute("aria-label", "filter rows");
  field.addEventListener("input", () => {
    const text = field.value.trim().toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(text);
  });
  table.closest(".wide").before(field);
}
// What is folded opens where a link leads into it, and on paper.
const reveal = () => {
  let part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  while ((part = part?.closest("details:not([open])"))) part.open = true;
};
addEventListener("hashchange", reveal);
reveal();
addEventListener("beforeprint", () => document.querySelectorAll(".fold").forEach((part) => (part.open = true)));
// A line above every table that goes on beside its box, and is not wholly in view.
for (const box of document.querySelectorAll(".wide")) {
  const hint = document.createElement("p");
  hint.className = "scrolls";
  hint.textContent = "more columns: scroll sideways →";
  box.before(hint);
  const show = () => (hint.hidden = box.scrollWidth <= box.clientWidth + 1);
  show();
  new ResizeObserver(show).observe(box);
  new ResizeObserver(show).observe(box.firstElementChild);
}
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
