// The time line: lanes of events on a canvas, moved and zoomed by mouse, touch and keys.
(() => {
  "use strict";
  const source = document.getElementById("lanes-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const box = document.getElementById("lanes"), canvas = document.getElementById("lanes-canvas");
  const status = document.getElementById("lanes-event"), span = document.getElementById("lanes-span");
  const ROW = 17, GAP = 9, HEAD = 16, TOP = 24, DEEPEST = 24;
  const pen = canvas.getContext("2d"), { duration } = drawing;

  // Each lane is some rows of events that do not overlap, so that what is visible of a row can be
  // found by halving.
  const lanes = data.order.map((number) => ({ label: data.lanes[number], rows: [], number }));
  const lane_of = [];
  lanes.forEach((lane) => { lane_of[lane.number] = lane; });
  let at = data.first, last = data.first, left_out = 0;
  data.lane.forEach((number, i) => {
    at += i ? data.start[i] : 0;
    const event = { start: at, end: at + data.dur[i], name: data.name[i], kind: data.kind[i] };
    last = Math.max(last, event.end);
    const rows = lane_of[number].rows;
    let row = rows.find((each) => each[each.length - 1].end <= event.start);
    if (!row && rows.length < DEEPEST) rows.push(row = []);
    if (row) row.push(event); else left_out++;
  });
  let height = TOP;
  for (const lane of lanes) {
    lane.top = height;
    height += HEAD + lane.rows.length * ROW + GAP;
  }
  const whole = [data.first, Math.max(last, data.first + 1)];
  let [low, high] = whole, chosen = null, width = 0;

  const x_of = (time) => (time - low) / (high - low) * width;
  const time_at = (x) => low + x / width * (high - low);

  function first_after(row, time) {
    let from = 0, to = row.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (row[middle].end <= time) from = middle + 1; else to = middle;
    }
    return from;
  }

  // Kernels, ranges and operators by name, so that the eye finds them again; the rest by kind.
  function colour(event, paint) {
    const kind = data.kinds[event.kind];
    if (["memcpy", "memset", "migration"].includes(kind)) return paint.of_class(kind);
    return paint.series[kind === "api_call" ? 7 : [0, 2, 4, 6, 8][event.name % 5]];
  }

  function draw() {
    const paint = drawing.colours();
    width = drawing.clear(canvas, height, paint);
    if (!width) return;
    ruler(paint);
    for (const lane of lanes) {
      pen.fillStyle = paint.quiet;
      pen.font = "600 11px system-ui, sans-serif";
      pen.fillText(lane.label, 4, lane.top + 11);
      pen.font = "11px system-ui, sans-serif";
      lane.rows.forEach((row, depth) => draw_row(row, lane.top + HEAD + depth * ROW, paint));
    }
    span.textContent = `${duration(high - low)} from ${duration(low)}`
      + (left_out ? `; ${left_out} events nest too deeply to be drawn` : "");
  }

  function ruler(paint) {
    const room = (high - low) * 110 / width, power = 10 ** Math.floor(Math.log10(room));
    const step = [1, 2, 5, 10].map((n) => n * power).find((each) => each >= room);
    pen.font = "11px system-ui, sans-serif";
    for (let time = Math.ceil(low / step) * step; time <= high; time += step) {
      pen.fillStyle = paint.line;
      pen.fillRect(x_of(time), 0, 1, height);
      pen.fillStyle = paint.quiet;
      pen.fillText(duration(time), x_of(time) + 3, 11);
    }
  }

  function draw_row(row, y, paint) {
    let drawn = -1;
    for (let i = first_after(row, low); i < row.length && row[i].start < high; i++) {
      const event = row[i], left = Math.max(x_of(event.start), -2), right = Math.min(x_of(event.end), width + 2);
      // Where several share a pixel, one is enough.
      if (right <= drawn && event !== chosen) continue;
      drawn = Math.max(left + 1, right);
      pen.fillStyle = colour(event, paint);
      pen.fillRect(left, y, Math.max(right - left - (right - left > 3 ? 0.5 : 0), 1), ROW - 2);
      if (event === chosen) {
        pen.strokeStyle = paint.fg;
        pen.lineWidth = 2;
        pen.strokeRect(left, y, Math.max(right - left, 2), ROW - 2);
      }
      if (right - left > 34) {
        pen.fillStyle = paint.bg;
        drawing.write(pen, data.names[event.name], left, y, right - left - 2, ROW);
      }
    }
  }

  function show(from, to) {
    const most = whole[1] - whole[0], length = Math.min(Math.max(to - from, 20), most);
    low = Math.min(Math.max(from, whole[0]), whole[1] - length);
    high = low + length;
    requestAnimationFrame(draw);
  }

  function zoom(factor, x) {
    const middle = time_at(x);
    show(middle - (middle - low) * factor, middle + (high - middle) * factor);
  }

  const move = (share) => show(low + (high - low) * share, high + (high - low) * share);

  function choose(event, lane) {
    chosen = event;
    if (!event) return;
    status.textContent = `${data.kinds[event.kind].replace("_", " ")} on ${lane.label}: `
      + `${data.names[event.name]}, ${duration(event.end - event.start)} from ${event.start.toLocaleString("en")} ns`;
    requestAnimationFrame(draw);
  }

  function event_at(x, y) {
    for (const lane of lanes) {
      const row = lane.rows[Math.floor((y - lane.top - HEAD) / ROW)];
      if (!row || y < lane.top + HEAD) continue;
      const near = (high - low) / width * 2, i = first_after(row, time_at(x) - near);
      if (i < row.length && row[i].start <= time_at(x) + near) return [row[i], lane];
    }
    return [null, null];
  }

  // -- keys

  let lane_number = 0;
  function next(direction) {
    const lane = lanes[lane_number];
    const all = lane.sorted || (lane.sorted = lane.rows.flat().sort((a, b) => a.start - b.start));
    const now = all.indexOf(chosen);
    let i = now < 0 ? Math.max(all.findIndex((event) => event.end > low), 0) : now + direction;
    i = Math.min(Math.max(i, 0), all.length - 1);
    const event = all[i];
    if (event.end < low || event.start > high) {
      show(event.start - (high - low) / 2, event.start + (high - low) / 2);
    }
    choose(event, lane);
  }

  const keys = {
    "+": () => zoom(0.5, width / 2), "=": () => zoom(0.5, width / 2), "-": () => zoom(2, width / 2),
    "\u2212": () => zoom(2, width / 2), ArrowLeft: () => move(-0.2), "\u2190": () => move(-0.2),
    ArrowRight: () => move(0.2), "\u2192": () => move(0.2), "0": () => show(...whole), Home: () => show(...whole),
    n: () => next(1), p: () => next(-1), ArrowDown: () => lane(1), ArrowUp: () => lane(-1),
  };

  function lane(direction) {
    lane_number = Math.min(Math.max(lane_number + direction, 0), lanes.length - 1);
    canvas.parentElement.scrollTop = lanes[lane_number].top - TOP;
    chosen = null;
    status.textContent = `${lanes[lane_number].label}: n is the next event`;
    requestAnimationFrame(draw);
  }

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  for (const button of box.querySelectorAll("button")) {
    button.addEventListener("click", () => keys[button.dataset.key]());
  }

  // -- mouse and touch

  const fingers = new Map();
  const place = (event) => {
    const { left, top } = canvas.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, place(event));
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = place(event), before = fingers.get(event.pointerId);
    if (!before) {
      choose(...event_at(...now));
      return;
    }
    const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, xy]) => xy);
    if (other) {
      const was = Math.abs(before[0] - other[0]), is = Math.abs(now[0] - other[0]);
      if (was > 4 && is > 4) zoom(was / is, (now[0] + other[0]) / 2);
    } else {
      const time = time_at(before[0]) - time_at(now[0]);
      show(low + time, high + time);
    }
    fingers.set(event.pointerId, now);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => {
      fingers.delete(event.pointerId);
      if (end === "pointerup") choose(...event_at(...place(event)));
    });
  }
  canvas.addEventListener("dblclick", (event) => zoom(0.25, place(event)[0]));
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey) zoom(event.deltaY > 0 ? 1.25 : 0.8, place(event)[0]);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX / width);
    else return; // the page scrolls
    event.preventDefault();
  }, { passive: false });

  box.hidden = false;
  drawing.keep_drawn(canvas, draw);
})();
