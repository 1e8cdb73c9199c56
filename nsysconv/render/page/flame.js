// Flame graphs: boxes of a tree on a canvas, zoomed, searched and weighed by mouse, touch and keys.
(() => {
  "use strict";
  const ROW = 18, DEEPEST = 400, NARROWEST = 0.5, LEGIBLE = 30;
  // Without red, which is idle time elsewhere, and gray, which is what is folded.
  const SERIES = [0, 1, 2, 3, 5, 6, 8];

  // A name has the same color in all flame graphs of all pages.
  function series(name) {
    let hash = 2166136261;
    for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
    return SERIES[(hash >>> 0) % SERIES.length];
  }

  // Only nothing is 0, and only all is 100.
  function share(part, whole) {
    const pct = whole ? 100 * part / whole : 0;
    if (pct > 0 && pct < 0.05) return "< 0.1 %";
    return pct >= 99.95 && pct < 100 ? "> 99.9 %" : `${pct.toFixed(1)} %`;
  }

  function count_words(count, one) {
    const ending = count === 1 ? "" : one.endsWith("x") ? "es" : "s";
    return `${count.toLocaleString("en")} ${one}${ending}`;
  }

  // The tree: nodes by the order of their rows, and after the last of them one that holds all.
  function tree_of(data) {
    const all = data.level.length, parent = new Int32Array(all + 1).fill(all), end = new Int32Array(all + 1).fill(all);
    const inside = Array.from({ length: all + 1 }, () => []), open = [];
    data.level.forEach((level, i) => {
      while (open.length && data.level[open[open.length - 1]] >= level) end[open.pop()] = i;
      if (open.length) parent[i] = open[open.length - 1];
      inside[parent[i]].push(i);
      open.push(i);
    });
    return { all, parent, end, inside };
  }

  // Where each node lies between 0 and 1, by one of its values. What lies in a node takes at most its
  // room: where it adds up to more, as on several threads, it is drawn the smaller.
  function layout_of(tree, values) {
    const { all, inside } = tree, value = Float64Array.from([...values, 0], (each) => Math.max(each || 0, 0));
    for (const root of inside[all]) value[all] += value[root];
    const left = new Float64Array(all + 1), size = new Float64Array(all + 1);
    // How many of the nodes before each have a width.
    const wide = new Int32Array(all + 1);
    const sorted = Array(all + 1);
    let squeezed = 0;
    size[all] = 1;
    for (let at = -1; at < all; at++) {
      const node = at < 0 ? all : at;
      if (at >= 0) wide[at + 1] = wide[at] + (value[at] > 0);
      if (!inside[node].length) continue;
      const nodes = sorted[node] = [...inside[node]].sort((a, b) => value[b] - value[a] || a - b);
      const sum = nodes.reduce((total, each) => total + value[each], 0);
      if (sum > value[node]) squeezed++;
      const unit = size[node] / (Math.max(sum, value[node]) || 1);
      let x = left[node];
      for (const each of nodes) {
        left[each] = x;
        x += size[each] = value[each] * unit;
      }
    }
    return { value, left, size, wide, inside: sorted, squeezed };
  }

  function signed(ns) {
    return `${ns > 0 ? "+" : ns < 0 ? "\u2212" : ""}${drawing.duration(Math.abs(ns))}`;
  }

  // Of a comparison: the widths that a measure gives, and by node how it changed, null where not recorded.
  const SAME = 0.01, SIDES = 3;
  function widths_of({ word, before, after }) {
    const both = before.map((value, i) => (value || 0) + (after[i] || 0));
    return [[both, "of both"], [before, "before"], [after, "after"]]
      .map(([values, which]) => ({ word: `${word} ${which}`, values }));
  }
  function changes_of(tree, { before, after }) {
    const change = Float64Array.from([...before.map((value, i) => (after[i] || 0) - (value || 0)), 0]);
    for (const root of tree.inside[tree.all]) change[tree.all] += change[root];
    return change;
  }

  function flame(box) {
    const data = JSON.parse(box.nextElementSibling.textContent), tree = tree_of(data), { all, parent } = tree;
    const measures = data.measures || null, changes = measures && measures.map((each) => changes_of(tree, each));
    if (measures) data.weights = measures.flatMap(widths_of);
    let strongest = 0;
    const part = (name) => box.querySelector(`.${name}`);
    const canvas = part("boxes"), status = part("event"), crumbs = part("crumbs"), drawn_words = part("drawn");
    const found = part("found"), input = box.querySelector("input"), pen = canvas.getContext("2d");
    const name_of = (node) => node === all ? "all" : data.names[data.name[node]];
    const color = data.names.map(series), layouts = [];
    let weight = 0, layout, view, chosen, rows = [], width = 0;
    // By name, and by node whether one lies in it or is it; null without words to look for.
    let matches = null, holds_match = null;

    // A box is a node, or some `nodes` in it that are too narrow to be seen: `folded` of them.
    const box_of = (node) =>
      ({ node, folded: 0, low: layout.left[node], high: layout.left[node] + layout.size[node] });
    const same = (one, other) => one && other && one.node === other.node && !one.folded === !other.folded;

    function arrange() {
      width = canvas.parentElement.clientWidth;
      if (!width) return;
      const { left, size, inside } = layout, scale = width / (view.high - view.low), waiting = [[view.node, 0]];
      rows = [[{ ...view }]];
      let too_deep = 0, drawn = 0;
      while (waiting.length) {
        const [node, depth] = waiting.pop(), next = [];
        const nodes = inside[node] || [];
        if (nodes.length && depth + 1 >= DEEPEST) {
          too_deep++;
          continue;
        }
        for (let i = 0; i < nodes.length && size[nodes[i]] > 0; i++) {
          const each = nodes[i];
          if (left[each] + size[each] <= view.low) continue;  // where only folded ones are zoomed to
          const row = rows[depth + 1] || (rows[depth + 1] = []);
          if (size[each] * scale >= NARROWEST) {
            row.push(box_of(each));
            next.push([each, depth + 1]);
            continue;
          }
          // The largest come first: all others are as narrow.
          const rest = nodes.slice(i).filter((other) => size[other] > 0);
          const last = rest[rest.length - 1], high = left[last] + size[last];
          if ((high - left[each]) * scale >= NARROWEST) {
            row.push({ node, folded: rest.length, nodes: rest, low: left[each], high });
          }
          break;
        }
        drawn += next.length;
        waiting.push(...next.reverse());
      }
      rows = rows.filter((row) => row.length);
      if (measures) {
        strongest = rows.flat().reduce((most, each) => Math.max(most, Math.abs(change_of(each))), 0);
      }
      const wide_in = (from, to) => layout.wide[to] - layout.wide[from];
      const within = view.folded ? view.nodes.reduce((sum, node) => sum + wide_in(node, tree.end[node]), 0)
        : wide_in(view.node === all ? 0 : view.node + 1, tree.end[view.node]);
      let words = `${drawn.toLocaleString("en")} of ${count_words(within, "box")} drawn`;
      if (drawn < within) words += ": the others are narrower than half a pixel";
      if (too_deep) words += `, or lie more than ${DEEPEST} deep`;
      if (layout.squeezed) {
        words += `. What lies in ${count_words(layout.squeezed, "box")} adds up to more than they do, `
          + "as of several threads; it is drawn in their width";
      }
      if (measures) {
        words += strongest ? `. The strongest color is a change by ${drawing.duration(strongest)}; `
          + `gray is less than ${100 * SAME} % of it` : ". Nothing changed";
      }
      drawn_words.textContent = `${words}.`;
    }

    function draw() {
      const paint = drawing.colors();
      if (canvas.parentElement.clientWidth !== width) arrange();
      is_waiting = false;
      if (!drawing.clear(canvas, rows.length * ROW + 2, paint)) return;
      pen.font = "11px system-ui, sans-serif";
      if (measures) paint.change = change_colors();
      rows.forEach((row, depth) => row.forEach((each) => draw_box(each, depth * ROW, paint)));
    }

    let is_waiting = false;
    function redraw() {
      if (!is_waiting) requestAnimationFrame(draw);
      is_waiting = true;
    }

    const x_of = (place) => (place - view.low) / (view.high - view.low) * width;
    const matched = (each) => each.folded ? each.nodes.some((node) => holds_match[node])
      : each.node !== all && matches[data.name[each.node]];

    function change_of(each) {
      const change = changes[Math.floor(weight / SIDES)];
      return each.folded ? each.nodes.reduce((sum, node) => sum + change[node], 0) : change[each.node];
    }

    function change_colors() {
      const style = getComputedStyle(document.documentElement);
      return Object.fromEntries(["less", "more", "was"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    }

    // Blue is less and red is more, the stronger the greater the change; gray is the same.
    function paint_change(each, paint, faint) {
      const by = strongest ? change_of(each) / strongest : 0, is_same = Math.abs(by) < SAME;
      pen.fillStyle = paint.change[is_same ? "was" : by < 0 ? "less" : "more"];
      pen.globalAlpha = faint ? 0.08 : is_same ? 0.2 : 0.25 + 0.5 * Math.min(Math.abs(by), 1);
    }

    function draw_box(each, y, paint) {
      const left = Math.max(x_of(each.low), 0), right = Math.min(x_of(each.high), width), size = right - left;
      const plain = each.folded || each.node === all, hit = matches && matched(each);
      pen.globalAlpha = matches ? (hit ? 0.7 : 0.12) : 0.5;
      pen.fillStyle = paint.series[plain ? 7 : color[data.name[each.node]]];
      if (plain && !hit) pen.globalAlpha /= 2;
      if (measures) paint_change(each, paint, matches && !hit);
      pen.fillRect(left, y + 1, Math.max(size - (size > 3 ? 1 : 0), NARROWEST), ROW - 1);
      pen.globalAlpha = 1;
      if (size > LEGIBLE) {
        pen.fillStyle = hit || !matches && (measures || !plain) ? paint.fg : paint.quiet;
        const words = each.folded ? `${each.folded.toLocaleString("en")} more` : each.node !== all ? name_of(each.node)
          : `all: ${data.weights[weight].word} ${drawing.duration(layout.value[all])}`
            + (measures ? `, ${signed(change_of(each))}` : "");
        drawing.write(pen, words, left, y + 2, size - 4, ROW);
      }
      if (same(each, chosen)) {
        pen.strokeStyle = paint.fg;
        pen.lineWidth = 2;
        pen.strokeRect(left + 1, y + 1, Math.max(size - 2, 1), ROW - 1);
      }
    }

    // -- words

    function sentence(each) {
      if (measures) return sentence_of_change(each);
      const { value } = layout, { node } = each, word = data.weights[weight].word;
      if (each.folded) {
        const sum = each.nodes.reduce((total, one) => total + value[one], 0);
        return `${each.folded.toLocaleString("en")} more in ${name_of(node)}, together `
          + `${drawing.duration(sum)} of ${word}, ${share(sum, value[all])} of all`;
      }
      const words = node !== all && data.calls && data.calls[node] !== null
        ? [count_words(data.calls[node], data.call)] : [];
      data.weights.forEach((each_weight, i) => {
        const { value: of } = layouts[i] || (layouts[i] = layout_of(tree, each_weight.values));
        const known = node === all || each_weight.values[node] !== null;
        words.push(known ? `${each_weight.word} ${drawing.duration(of[node])}`
          + (node === all ? "" : ` (${share(of[node], of[all])} of all)`) : `no ${each_weight.word} recorded`);
      });
      if (view.node !== all && view.node !== node) {
        words.push(`${share(value[node], value[view.node])} of ${name_of(view.node)}`);
      }
      return `${name_of(node)}: ${words.join("; ")}`;
    }

    const sum_of = (values, nodes) =>
      nodes.every((node) => values[node] === null) ? null : nodes.reduce((sum, node) => sum + (values[node] || 0), 0);

    function sentence_of_change(each) {
      const { node } = each, nodes = each.folded ? each.nodes : node === all ? tree.inside[all] : [node];
      const words = measures.map(({ word, before, after }) => {
        const [from, to] = [before, after].map((values) => sum_of(values, nodes));
        if (from === null && to === null) return `no ${word} recorded`;
        const [was, is] = [from, to].map((ns) => ns === null ? "not recorded" : drawing.duration(ns));
        if (from === null || to === null) return `${word} ${was} \u2192 ${is}`;
        const by = from ? 100 * (to - from) / from : 0;
        const pct = from && to ? `, ${by > 0 ? "+" : ""}${by.toFixed(1).replace("-", "\u2212")} %` : "";
        return `${word} ${was} \u2192 ${is} (${from === to ? "the same" : signed(to - from) + pct})`;
      });
      if (!each.folded && node !== all) {
        const [from, to] = data.calls.map((counts) => counts[node]);
        const count = (value) => value === null ? "?" : (+value.toPrecision(4)).toLocaleString("en");
        if (from !== null || to !== null) words.push(`${data.call}s ${count(from)} \u2192 ${count(to)}`);
      }
      const name = each.folded ? `${each.folded.toLocaleString("en")} more in ${name_of(node)}` : name_of(node);
      return `${name}: ${words.join("; ")}`;
    }

    function choose(each) {
      if (!each || same(each, chosen)) return;
      chosen = each;
      status.textContent = sentence(each);
      redraw();
    }

    function element(name, properties) {
      return Object.assign(document.createElement(name), properties);
    }

    function show_crumbs() {
      const path = [];
      for (let node = view.node; ; node = parent[node]) {
        path.unshift(node);
        if (node === all) break;
      }
      const hidden = path.length > 6 ? path.splice(1, path.length - 5) : [];
      crumbs.replaceChildren();
      path.forEach((node, i) => {
        if (i) crumbs.append(" \u203a ");
        if (i === 1 && hidden.length) crumbs.append(`${hidden.length} more \u203a `);
        if (node === view.node && !view.folded) {
          const here = element("b", { textContent: name_of(node) });
          here.setAttribute("aria-current", "true");
          crumbs.append(here);
          return;
        }
        const button = element("button", { type: "button", textContent: name_of(node) });
        button.addEventListener("click", () => {
          zoom(box_of(node));
          canvas.focus();
        });
        crumbs.append(button);
      });
      if (view.folded) crumbs.append(` \u203a ${view.folded.toLocaleString("en")} more`);
    }

    // -- what is shown

    function zoom(each, choosing = each) {
      if (!(each.high > each.low)) return;
      view = each;
      chosen = null;
      canvas.parentElement.scrollTop = 0;
      arrange();
      show_crumbs();
      choose(choosing);
    }

    function weigh(number) {
      weight = number;
      layout = layouts[number] || (layouts[number] = layout_of(tree, data.weights[number].values));
      box.querySelectorAll("[data-weight]").forEach((button, i) =>
        button.setAttribute("aria-pressed", i === number));
      const node = view && layout.size[view.node] ? view.node : all;
      const next = chosen && !chosen.folded ? chosen.node : node;
      zoom(box_of(node), box_of(next));
      search();
    }

    function search() {
      const wanted = input.value.trim().toLowerCase();
      if (!wanted) {
        matches = null;
        found.textContent = "";
        redraw();
        return;
      }
      matches = data.names.map((name) => name.toLowerCase().includes(wanted));
      holds_match = new Uint8Array(all + 1);
      // What lies in another match is part of it already.
      const covered = new Uint8Array(all + 1);
      let count = 0, sum = 0;
      for (let node = 0; node < all; node++) {
        const hit = matches[data.name[node]];
        if (hit && !covered[parent[node]]) sum += layout.value[node];
        covered[node] = hit || covered[parent[node]];
        holds_match[node] = hit;
        count += hit;
      }
      for (let node = all - 1; node >= 0; node--) holds_match[parent[node]] |= holds_match[node];
      found.textContent = `${count_words(count, "box")}, ${data.weights[weight].word} `
        + `${drawing.duration(sum)}: ${share(sum, layout.value[all])} of all`;
      redraw();
    }

    // -- keys

    function place_of(each) {
      for (let depth = 0; depth < rows.length; depth++) {
        const i = rows[depth].findIndex((other) => same(other, each));
        if (i >= 0) return [depth, i];
      }
      return [0, 0];
    }

    function step(down, aside) {
      const [depth, i] = place_of(chosen), now = rows[depth][i];
      if (aside) {
        choose(rows[depth][i + aside]);
        return;
      }
      if (down < 0 && !depth) {
        const above = view.folded ? view.node : parent[view.node];
        if (view.folded || view.node !== all) zoom(box_of(above), box_of(view.node));
        return;
      }
      const row = rows[depth + down] || [];
      const around = (each) => each.folded ? each.node : parent[each.node];
      choose(row.find((each) => down > 0 ? around(each) === now.node : each.node === around(now)));
      const at = (depth + down) * ROW, scroll = canvas.parentElement;
      if (at < scroll.scrollTop || at + ROW > scroll.scrollTop + scroll.clientHeight) {
        scroll.scrollTop = at - scroll.clientHeight / 2;
      }
    }

    drawing.keys(canvas, box, {
      ArrowDown: () => step(1, 0), ArrowUp: () => step(-1, 0), ArrowLeft: () => step(0, -1),
      ArrowRight: () => step(0, 1), Enter: () => zoom(chosen), Escape: () => zoom(box_of(all)),
    });
    box.querySelectorAll("[data-weight]").forEach((button, i) => {
      button.addEventListener("click", () => weigh(i));
    });
    input.addEventListener("input", search);

    // -- mouse and touch

    function box_at(event) {
      const { left, top } = canvas.getBoundingClientRect();
      const row = rows[Math.floor((event.clientY - top - 1) / ROW)] || [], x = event.clientX - left;
      return row.find((each) => x_of(each.low) <= x && Math.max(x_of(each.high), x_of(each.low) + 1) > x);
    }
    canvas.addEventListener("pointermove", (event) => choose(box_at(event)));
    canvas.addEventListener("click", (event) => {
      const each = box_at(event);
      if (each && !same(each, view)) zoom(each);
    });

    // Where there may be a scroll bar, its room is kept: else it would come and go with what fits.
    const deepest = data.level.reduce((most, level) => Math.max(most, level), 0);
    canvas.parentElement.classList.toggle("deep", deepest * ROW > innerHeight / 2);
    weigh(0);
    box.hidden = false;
    drawing.keep_drawn(canvas, draw);
  }

  for (const box of document.querySelectorAll(".flame")) flame(box);
})();
