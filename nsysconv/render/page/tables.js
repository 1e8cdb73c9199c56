// Tables: sorted by their headers, searched, filtered, copied and saved, and shown in brief until more is
// asked for. Numbers are the exact ones, in base units: what is shown of them is rounded.
(() => {
  "use strict";
  const MOST_CHOICES = 12;
  const nothing = new Set(["-", "\u2013", ""]);
  const units = {
    ns: 1, "\u00b5s": 1e3, "\u03bcs": 1e3, us: 1e3, ms: 1e6, s: 1e9,
    b: 1, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12, k: 1e3, m: 1e6, g: 1e9, t: 1e12, "%": 1, "": 1,
  };

  function element(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  // The text of a cell that the rows of a file would have: of numbers all digits, of nothing none.
  function exact(row, column, header) {
    if (header.dataset.x !== undefined) return row.dataset.v.split(",")[header.dataset.x];
    const cell = row.cells[column];
    const text = (cell.querySelector(".l") || cell).textContent.trim();
    if (nothing.has(text)) return "";
    return is_words(header) ? text : text.replace(/,/g, "");
  }

  function is_words(header) {
    return header.classList.contains("t");
  }

  function set_up(table) {
    const body = table.tBodies[0], headers = [...table.tHead.rows[0].cells], rows = [...body.rows];
    const title = table.parentElement.getAttribute("aria-label");
    const tools = element("div", { className: "tools" });
    const status = element("span", { className: "quiet" });
    status.setAttribute("aria-live", "polite");
    const filters = new Map();
    let wanted = "";

    function sort(column) {
      const header = headers[column], words = is_words(header), was = header.getAttribute("aria-sort");
      const down = was ? was === "ascending" : !words;
      const keyed = [...body.rows].map((row, i) => {
        const text = exact(row, column, header);
        return [text === "" ? null : words ? text : Number(text), i, row];
      });
      const order = (a, b) => words ? a.localeCompare(b, "en", { numeric: true }) : a - b;
      // Rows without a value are last either way.
      keyed.sort(([a, i], [b, j]) =>
        a === null || b === null ? (a === null) - (b === null) || i - j
          : (down ? -1 : 1) * order(a, b) || i - j);
      for (const other of headers) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...keyed.map((each) => each[2]));
    }

    // -- which rows are shown

    function choose() {
      let shown = 0;
      for (const row of rows) {
        row.hidden = (wanted !== "" && !row.textContent.toLowerCase().includes(wanted))
          || ![...filters.values()].every((passes) => passes(row));
        shown += !row.hidden;
      }
      status.textContent = wanted || filters.size ? `${shown} of ${rows.length} rows` : "";
    }

    // `> 1 ms`, `<= 20`: what passes it; null where that is no such comparison.
    function comparison(text) {
      const found = /^\s*(<=|>=|<|>|=|)\s*(-?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*([^\d\s]*?)(?:\/s)?\s*$/i.exec(text);
      const unit = found && units[found[3].toLowerCase()];
      if (!unit) return null;
      // 1.001 us are 1001 ns, whatever the product of these doubles is.
      const bound = Number((Number(found[2].replace(/,/g, "")) * unit).toPrecision(15));
      return { "<": (x) => x < bound, "<=": (x) => x <= bound, ">": (x) => x > bound,
        ">=": (x) => x >= bound, "=": (x) => x === bound, "": (x) => x === bound }[found[1]];
    }

    function field(header, column) {
      const words = is_words(header), label = `Filter ${header.textContent}`;
      const of = (row) => exact(row, column, header);
      const values = words ? [...new Set(rows.map(of))] : [];
      let input, passes;
      if (words && values.length <= MOST_CHOICES) {
        input = element("select", {}, element("option", { value: "", textContent: "all" }));
        values.sort((a, b) => a.localeCompare(b, "en", { numeric: true })).forEach((value, i) =>
          input.append(element("option", { value: i + 1, textContent: value.slice(0, 60) || "-" })));
        passes = (value) => (row) => of(row) === values[value - 1];
      } else if (words) {
        input = element("input", { type: "search", placeholder: "contains" });
        passes = (value) => (row) => of(row).toLowerCase().includes(value.toLowerCase());
      } else {
        const unit = /_ns$/.test(header.dataset.name) ? " 1 ms" : /bytes/.test(header.dataset.name) ? " 1 MB" : " 10";
        input = element("input", { type: "search", placeholder: `>${unit}` });
        passes = (value) => {
          const holds = comparison(value);
          return holds && ((row) => of(row) !== "" && holds(Number(of(row))));
        };
      }
      input.setAttribute("aria-label", label);
      input.addEventListener("input", () => {
        const made = input.value === "" ? null : passes(input.value);
        input.setAttribute("aria-invalid", input.value !== "" && !made);
        if (made) filters.set(column, made);
        else filters.delete(column);
        choose();
      });
      return input;
    }

    function toggle_filters(button) {
      const open = button.getAttribute("aria-expanded") !== "true";
      button.setAttribute("aria-expanded", open);
      if (open) {
        const fields = headers.map((header, i) =>
          element("td", { className: header.className }, field(header, i)));
        table.tHead.append(element("tr", { className: "filters" }, ...fields));
        fields[0].firstChild.focus();
        return;
      }
      table.tHead.rows[1].remove();
      filters.clear();
      choose();
    }

    // -- out of the page

    function lines(columns, separator) {
      const quoted = (text) => separator === "," && /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
      const line = (texts) => `${texts.map(quoted).join(separator)}\n`;
      const shown = [...body.rows].filter((row) => !row.hidden);
      return line(columns.map((i) => headers[i].dataset.name))
        + shown.map((row) => line(columns.map((i) => exact(row, i, headers[i])))).join("");
    }

    function say_taken(words) {
      const count = rows.filter((row) => !row.hidden).length;
      status.textContent = `${words}: ${count} row${count === 1 ? "" : "s"}`;
    }

    async function copy() {
      const seen = headers.map((_, i) => i).filter((i) => getComputedStyle(headers[i]).display !== "none");
      const text = lines(seen, "\t");
      await clipboard.copy(text);
      say_taken("copied");
    }

    function save() {
      const blob = new Blob([lines(headers.map((_, i) => i), ",")], { type: "text/csv;charset=utf-8" });
      const link = element("a", { href: URL.createObjectURL(blob), download: `${table.id.slice(2)}.csv` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
      say_taken("saved");
    }

    // -- where its rows are in the time line

    if (table.dataset.link) {
      for (const row of rows) {
        if (!row.dataset.to) continue;
        const link = element("a", { href: `#${row.dataset.to}`, className: "to", title: "show it in the time line" });
        link.setAttribute("aria-label", "show it in the time line");
        row.cells[table.dataset.link].append(link);
      }
    }

    // -- what people see of it

    function button(text, act, words = text) {
      const made = element("button", { type: "button", textContent: text });
      made.setAttribute("aria-label", `${words} ${title}`);
      made.addEventListener("click", () => act(made));
      return made;
    }

    headers.forEach((header, column) => {
      const sorter = element("button", { type: "button" }, ...header.childNodes);
      header.append(sorter);
      sorter.addEventListener("click", () => sort(column));
    });
    if (table.dataset.search) {
      const input = element("input", { type: "search" });
      input.addEventListener("input", () => {
        wanted = input.value.toLowerCase();
        choose();
      });
      tools.append(element("label", {}, "Search ", input));
      const filter = button("Filter", toggle_filters);
      filter.setAttribute("aria-expanded", "false");
      tools.append(filter);
    }
    if (table.dataset.more) {
      table.classList.remove("full");
      const box = element("input", { type: "checkbox" });
      box.addEventListener("change", () => table.classList.toggle("full", box.checked));
      tools.append(element("label", {}, box, " all columns, whole names"));
    }
    if (rows.length) tools.append(button("Copy", copy), button("CSV", save));
    tools.append(status);
    table.parentElement.before(tools);
  }

  document.querySelectorAll(".scroll > table[id]").forEach(set_up);
})();
