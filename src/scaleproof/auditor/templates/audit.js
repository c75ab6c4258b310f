// Sorting is a convenience: the table is complete without it.
for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("thead th").forEach((head, column) => head.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    const number = (text) => parseFloat(text.replace(/,/g, ""));
    const rows = [...table.tBodies[0].rows].sort((a, b) => {
      const x = a.cells[column].textContent, y = b.cells[column].textContent;
      const order = isNaN(number(x)) || isNaN(number(y)) ? x.localeCompare(y) : number(x) - number(y);
      return up ? order : -order;
    });
    table.querySelectorAll("th[aria-sort]").forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    table.tBodies[0].append(...rows);
  }));
}
