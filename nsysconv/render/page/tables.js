// Tables: sorted by their headers, searched, and shown in brief until more is asked for.
(() => {
  "use strict";
  const nothing = new Set(["-", "\u2013", ""]);

  function value(cell, words) {
    const text = (cell.querySelector(".l") || cell).textContent.trim();
    if (nothing.has(text)) return null;
    if (words) return text;
    // What is too small to be shown, `<0.001`, comes before what is shown.
    const number = parseFloat(text.replace(/[<>,]/g, ""));
    return text.startsWith("<") ? number / 2 : number;
  }

  function sort(table, column, header) {
    const body = table.tBodies[0], words = header.classList.contains("t");
    const was = header.getAttribute("aria-sort");
    const down = was ? was === "ascending" : !words;
    const rows = [...body.rows].map((row, i) => [value(row.cells[column], words), i, row]);
    const order = (a, b) => words ? a.localeCompare(b, "en", { numeric: true }) : a - b;
    // Rows without a value are last either way.
    rows.sort(([a, i], [b, j]) =>
      a === null || b === null ? (a === null) - (b === null) || i - j
        : (down ? -1 : 1) * order(a, b) || i - j);
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...rows.map((row) => row[2]));
  }

  function search(table, wanted, status) {
    const words = wanted.toLowerCase();
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = words !== "" && !row.textContent.toLowerCase().includes(words);
      shown += !row.hidden;
    }
    status.textContent = words ? `${shown} of ${table.tBodies[0].rows.length} rows` : "";
  }

  function element(name, properties) {
    return Object.assign(document.createElement(name), properties);
  }

  for (const table of document.querySelectorAll(".scroll > table[id]")) {
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = element("button", { type: "button" });
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sort(table, column, header));
    });
    const tools = element("div", { className: "tools" });
    if (table.dataset.search) {
      const label = element("label", { textContent: "Search " });
      const input = element("input", { type: "search" });
      const status = element("span", { className: "quiet" });
      status.setAttribute("aria-live", "polite");
      input.addEventListener("input", () => search(table, input.value, status));
      label.append(input);
      tools.append(label, status);
    }
    if (table.dataset.more) {
      table.classList.remove("full");
      const label = element("label", {});
      const box = element("input", { type: "checkbox" });
      box.addEventListener("change", () => table.classList.toggle("full", box.checked));
      label.append(box, " all columns, whole names");
      tools.append(label);
    }
    if (tools.childNodes.length) table.parentElement.before(tools);
  }
})();
