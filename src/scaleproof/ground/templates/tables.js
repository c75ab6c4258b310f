// Sorting, filtering and a hint at columns out of view. Without scripts the tables stand as they are.
for (const table of document.querySelectorAll("table.data")) {
  const heads = [...table.tHead.rows[0].cells],
    body = table.tBodies[0],
    rows = [...body.rows];
  heads.forEach((head, i) => {
    const button = document.createElement("button"),
      isNumber = head.classList.contains("number");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    const text = (row) => row.cells[i].dataset.order ?? row.cells[i].textContent.trim();
    const value = (row) => Number.parseFloat(text(row).replace(/,/g, ""));
    const compare = (a, b) =>
      isNumber ? value(a) - value(b) : text(a).localeCompare(text(b), undefined, { numeric: true });
    const known = (row) => !isNumber || !Number.isNaN(value(row));
    button.addEventListener("click", () => {
      const sorted = head.getAttribute("aria-sort");
      const up = sorted ? sorted === "descending" : !isNumber;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const first = rows.filter(known).sort((a, b) => (up ? 1 : -1) * compare(a, b));
      body.append(...first, ...rows.filter((row) => !known(row)));
    });
  });
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
