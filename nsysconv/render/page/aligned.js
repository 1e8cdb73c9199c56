// Two runs on one axis: of each lane what ran before, what after, and when one was busy alone.
(() => {
  "use strict";
  const box = document.querySelector(".aligned"), source = document.getElementById("aligned-data");
  if (!box || !source) return;
  const data = JSON.parse(source.textContent), canvas = box.querySelector("canvas"), pen = canvas.getContext("2d");
  const status = box.querySelector(".event"), span = box.querySelector(".span"), title = box.querySelector(".pair");
  const { duration } = drawing, SIDES = ["before", "after"];
  const LEFT = 48, TOP = 20, HEAD = 16, ROW = 17, THIN = 5, GAP = 10, SHORTEST = 20;
  // The style sheet's colors of the sides, where one is busy alone.
  const ALONE = ["was", "now"];

  // Rows of boxes from above to below: before, busy only before, busy only after, after.
  function boxes_of(columns) {
    let at = 0;
    const found = columns.start.map((start, i) => {
      at += start;
      const one = (name, otherwise) => columns[name] ? columns[name][i] : otherwise;
      const dur = columns.dur[i];
      return { start: at, end: at + dur, kind: one("kind", -1), name: one("name", -1), count: one("count", 1),
        busy: one("busy", dur) };
    });
    // What lies under others ends later: how far any before it reaches, to find what is visible by halving.
    let reach = 0;
    for (const each of found) each.reach = reach = Math.max(reach, each.end);
    return found;
  }
  const pairs = data.pairs.map((pair) => {
    const rows = [];
    let y = TOP;
    const heads = pair.lanes.map((lane) => {
      const top = y;
      y += HEAD;
      const [before, after] = lane.boxes.map(boxes_of), [less, more] = lane.alone.map(boxes_of);
      for (const [boxes, side, height] of [[before, 0, ROW], [less, 0, THIN], [more, 1, THIN], [after, 1, ROW]]) {
        rows.push({ boxes, side, height, y, label: lane.label, is_alone: height === THIN });
        y += height + 1;
      }
      y += GAP;
      return { label: lane.label, y: top };
    });
    return { ...pair, rows, heads, height: y, length: Math.max(...pair.lengths, 1) };
  });

  let pair = null, view = null, chosen = null, row_number = -1, width = 0;
  const x_of = (time) => LEFT + (time - view.low) / (view.high - view.low) * (width - LEFT);
  const time_at = (x) => view.low + (x - LEFT) / (width - LEFT) * (view.high - view.low);

  function first_after(row, time) {
    let from = 0, to = row.boxes.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (row.boxes[middle].reach <= time) from = middle + 1; else to = middle;
    }
    return from;
  }

  let is_waiting = false;
  function redraw() {
    if (!is_waiting) requestAnimationFrame(draw);
    is_waiting = true;
  }

  function draw() {
    is_waiting = false;
    const paint = drawing.colors();
    width = drawing.clear(canvas, pair.height, paint);
    if (!width) return;
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    paint.alone = ALONE.map(of);
    paint.kinds = data.colors.map(of);
    for (const row of pair.rows) draw_row(row, paint);
    ruler(paint);
    for (const head of pair.heads) {
      pen.fillStyle = paint.quiet;
      pen.font = "600 11px system-ui, sans-serif";
      pen.fillText(head.label, 4, head.y + 11);
    }
    const { low, high } = view;
    span.textContent = `${duration(high - low)} from ${duration(low)}`;
  }

  function ruler(paint) {
    const { low, high } = view;
    const room = (high - low) * 110 / (width - LEFT), power = 10 ** Math.floor(Math.log10(room));
    const step = [1, 2, 5, 10].map((n) => n * power).find((each) => each >= room);
    pen.font = "11px system-ui, sans-serif";
    for (let time = Math.ceil(low / step) * step; time <= high; time += step) {
      pen.fillStyle = paint.line;
      pen.fillRect(x_of(time), 0, 1, TOP - 6);
      pen.fillStyle = paint.quiet;
      pen.fillText(duration(time), x_of(time) + 3, 11);
    }
  }

  function draw_row(row, paint) {
    const { y, height } = row, { low, high } = view, right_end = Math.min(x_of(pair.lengths[row.side]), width);
    // As long as the step of this side.
    pen.fillStyle = paint.card;
    if (right_end > LEFT) pen.fillRect(LEFT, y, right_end - LEFT, height);
    if (!row.is_alone) {
      pen.fillStyle = paint.quiet;
      pen.font = "11px system-ui, sans-serif";
      pen.fillText(SIDES[row.side], 4, y + 12);
    }
    let drawn = -1;
    for (let i = first_after(row, low); i < row.boxes.length && row.boxes[i].start < high; i++) {
      const each = row.boxes[i], left = Math.max(x_of(each.start), LEFT), right = Math.min(x_of(each.end), width);
      // Where several share a pixel, one is enough.
      if (right < left || right <= drawn && right - left < 1 && each !== chosen) continue;
      drawn = Math.max(left + 1, right);
      const size = Math.max(right - left - (right - left > 3 ? 0.5 : 0), 1);
      pen.fillStyle = row.is_alone ? paint.alone[row.side] : paint.kinds[each.kind];
      // Of several in one box there is time between them.
      const share = each.end > each.start ? each.busy / (each.end - each.start) : 1;
      pen.globalAlpha = each.count > 1 ? 0.3 + 0.7 * share : 1;
      pen.fillRect(left, y, size, height);
      pen.globalAlpha = 1;
      if (each === chosen) {
        pen.strokeStyle = paint.fg;
        pen.lineWidth = 2;
        pen.strokeRect(left, y, Math.max(size, 2), height);
      }
      if (right - left > 34 && !row.is_alone) {
        pen.fillStyle = each.count > 1 ? paint.fg : paint.bg;
        drawing.write(pen, words_in(each), left, y, right - left - 2, ROW);
      }
    }
  }

  const words_in = (each) => each.count > 1 ? `${each.count.toLocaleString("en")} operations` : data.names[each.name];

  function sentence(each, row) {
    const from = `from ${duration(each.start)}`, length = duration(each.end - each.start), side = SIDES[row.side];
    if (row.is_alone) {
      const several = each.count > 1 ? ` in ${each.count.toLocaleString("en")} stretches` : "";
      return `Busy only ${side}, ${row.label}: ${duration(each.busy)}${several}, ${from}`;
    }
    const name = data.names[each.name], kind = data.kinds[each.kind];
    if (each.count > 1) {
      return `${each.count.toLocaleString("en")} operations ${side}, ${row.label}: ${duration(each.busy)} in ${length}, `
        + `${from}; the longest is ${kind}, ${name}`;
    }
    return `${kind} ${side}, ${row.label}: ${name}, ${length} ${from}`;
  }

  function choose(each, row) {
    if (!each) return;
    chosen = each;
    row_number = pair.rows.indexOf(row);
    status.textContent = sentence(each, row);
    redraw();
  }

  // A place on the labels counts as the begin of what is shown.
  const zoom = (factor, x) => view.zoom(factor, time_at(Math.max(x, LEFT)));
  const move = (share) => view.move(share);
  const show_all = () => view.show_all();

  function show_pair(number) {
    pair = pairs[number];
    view = drawing.shown_part(0, pair.length, SHORTEST, redraw);
    chosen = null;
    row_number = -1;
    title.textContent = pair.words;
    status.textContent = "Point at a box, or press n.";
    canvas.parentElement.scrollTop = 0;
    box.querySelectorAll("[data-pair]").forEach((button, i) => button.setAttribute("aria-pressed", i === number));
    redraw();
  }

  // -- keys

  function next(direction) {
    if (row_number < 0) row_number = Math.max(pair.rows.findIndex((row) => row.boxes.length), 0);
    const row = pair.rows[row_number], now = row.boxes.indexOf(chosen);
    if (!row.boxes.length) return;
    let i = now < 0 ? Math.max(row.boxes.findIndex((each) => each.end > view.low), 0) : now + direction;
    i = Math.min(Math.max(i, 0), row.boxes.length - 1);
    const each = row.boxes[i], { low, high } = view;
    if (each.end < low || each.start > high) {
      view.show(each.start - (high - low) / 2, each.start + (high - low) / 2);
    }
    choose(each, row);
  }

  function lane(direction) {
    row_number = Math.min(Math.max(row_number + direction, 0), pair.rows.length - 1);
    const row = pair.rows[row_number], scroll = canvas.parentElement;
    if (row.y < scroll.scrollTop || row.y + ROW > scroll.scrollTop + scroll.clientHeight) {
      scroll.scrollTop = row.y - scroll.clientHeight / 2;
    }
    chosen = null;
    const what = row.is_alone ? `busy only ${SIDES[row.side]}` : SIDES[row.side];
    const count = row.boxes.length;
    status.textContent = `${row.label}, ${what}: ${count ? "n is the next box" : "nothing"}`;
    redraw();
  }

  const middle = () => (LEFT + width) / 2;
  drawing.keys(canvas, box, {
    "+": () => zoom(0.5, middle()), "=": () => zoom(0.5, middle()), "-": () => zoom(2, middle()),
    "\u2212": () => zoom(2, middle()), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2),
    w: () => zoom(0.5, middle()), s: () => zoom(2, middle()), a: () => move(-0.2), d: () => move(0.2),
    "0": show_all, Home: show_all, n: () => next(1), p: () => next(-1),
    ArrowDown: () => lane(1), ArrowUp: () => lane(-1),
  });
  box.querySelectorAll("[data-pair]").forEach((button, i) => button.addEventListener("click", () => show_pair(i)));

  // -- mouse and touch

  function box_at(x, y) {
    const row = pair.rows.find((each) => y >= each.y && y <= each.y + each.height);
    if (!row || x < LEFT) return [null, null];
    const near = (view.high - view.low) / (width - LEFT) * 2, time = time_at(x);
    let found = null;
    for (let i = first_after(row, time - near); i < row.boxes.length && row.boxes[i].start <= time + near; i++) {
      // What is drawn last lies above; what the pointer is in counts before what is near.
      if (row.boxes[i].end >= time - near && (!found || row.boxes[i].start <= time)) found = row.boxes[i];
    }
    return [found, row];
  }

  drawing.gestures(canvas, {
    zoom,
    move: (pixels) => move(pixels / width),
    point: (at) => choose(...box_at(...at)),
    click: (at) => choose(...box_at(...at)),
    drag([from], [to]) {
      const time = time_at(from) - time_at(to);
      view.show(view.low + time, view.high + time);
    },
  });

  box.hidden = false;
  show_pair(0);
  drawing.keep_drawn(canvas, draw);
})();
