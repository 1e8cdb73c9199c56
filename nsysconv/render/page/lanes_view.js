// Draws the part of the time line that is looked at: few rectangles, however many events there are.
const lanes_view = (() => {
  "use strict";
  const ROW = 17, { TOP, y_of } = lanes_groups;
  const MOST = 20000, LEGIBLE = 34, WIDE_TILE = 2;
  const { duration } = drawing, { holds, outside, tiles_between, events_between } = lanes_data;

  // By class: one of the account has one color, and kernels of one class are told apart by their shade; on the
  // CPU all is gray: calls the darkest, then operators, then ranges. By name: each has a color of its own, as
  // far as there are any. Ranges may have the color that the program gave them; all else is then by class.
  const SHADES = [1, 0.82, 0.66];
  function color_of(label, data, paint, coloring) {
    if (coloring === "own" && label.own) return drawing.apart(label.own, paint);
    const shade = SHADES[label.number % SHADES.length], kind = data.ids[label.kind];
    if (coloring === "name" || coloring === "range") return drawing.mix(paint.series[label.number % paint.series.length], paint.bg, shade);
    if (label.kind < data.gpu) {
      const is_class = ["memcpy", "memset", "migration"].includes(kind);
      const plain = paint.of_class(label.class || (is_class ? kind : "computation"));
      return label.kind ? plain : drawing.mix(plain, paint.bg, shade);
    }
    if (kind === "api_call") return drawing.mix(paint.quiet, paint.bg, 0.35 + shade / 6);
    return drawing.mix(paint.quiet, paint.bg, (kind === "range" ? 0.1 : 0.24) + shade / 6);
  }

  // The innermost range that an event, or the call that launched it, began in; its own name where there is none.
  function range_of(event, data) {
    if (event.range === undefined) {
      const from = data.by_id.get(event.call) || event, outer = from.alone ? [] : lanes_data.around(from);
      const is_range = ({ label }) => data.ids[label.kind] === "range";
      event.range = is_range(event) ? event.label : (outer.find(is_range) || event).label;
    }
    return event.range;
  }

  const height_of = (lane) => lane.account ? lanes_account.HEIGHT : lane.counter ? lanes_counters.HEIGHT : lane.rows.length * ROW;

  // What to draw of a row: single events where all are known and few, else the tiles that suit the width of
  // a pixel, and over them the events of the parts that are known.
  function pieces(data, row, view, most) {
    const { low, high, width } = view, pixel = (high - low) / width;
    const known = data.parts.filter((part) => part[0] < high && part[1] > low);
    const [first, past] = events_between(row, low, high);
    const is_known = known.some((part) => holds(part, Math.max(low, data.first), Math.min(high, data.last)));
    if (is_known && (past - first <= Math.min(most, width / 2) || !row.levels.length)) {
      return { tiles: null, shown: [0, 0], events: single(row, first, past, view) };
    }
    const levels = row.levels.filter(Boolean);
    let level = null, shown = [0, 0];
    for (const each of levels) {
      const between = tiles_between(each, low, high);
      if (level && (each.width < pixel / 2 || between[1] - between[0] > most)) break;
      [level, shown] = [each, between];
    }
    const found = { tiles: level, shown, events: [] };
    const finest = levels[levels.length - 1];
    if (!finest || finest.width > WIDE_TILE * pixel) {
      found.known = [];
      for (const part of known) {
        const events = single(row, ...events_between(row, Math.max(low, part[0]), Math.min(high, part[1])), view);
        if (found.events.length + events.length > most) continue;
        found.events.push(...events);
        found.known.push(part);
      }
    }
    return found;
  }

  // Of events that share a pixel the longest.
  function single(row, first, past, view) {
    const scale = view.width / (view.high - view.low), found = [];
    const is_narrow = (event) => (event.end - event.start) * scale < 1;
    let last = -Infinity;
    for (let i = first; i < past; i++) {
      const event = row.events[i], pixel = Math.floor((event.start - view.low) * scale);
      const before = found[found.length - 1];
      if (pixel !== last || !is_narrow(before)) found.push(event);
      else if (event.end - event.start > before.end - before.start) found[found.length - 1] = event;
      last = pixel;
    }
    return found;
  }

  // What to draw of the rows that are in sight.
  function in_sight(data, view) {
    const rows = [];
    for (const lane of data.lanes.filter((each) => !each.account && !each.is_hidden)) {
      const from = lane.is_pinned ? 0 : view.bottom;
      lane.rows.forEach((row, number) => {
        const y = y_of(lane, view) + number * ROW;
        if (y > from - ROW && y < view.height) rows.push([row, y]);
      });
    }
    const found = (most) => rows.map(([row, y]) => [row, y, pieces(data, row, view, most)]);
    const count = (all) => all.reduce((sum, [, , { tiles, shown, events }]) =>
      sum + events.length + (tiles ? shown[1] - shown[0] : 0), 0);
    view.most = MOST;
    const all = found(view.most);
    if (count(all) <= MOST) return all;
    view.most = Math.floor(MOST / rows.length / 2);
    return found(view.most);
  }

  // What of tiles is not drawn: the parts whose events are known, and when the GPU was idle.
  function without(row, known, { low, high }) {
    const { idle } = row.lane, cuts = [...known];
    if (idle) {
      const [first, past] = events_between(idle, low, high);
      for (let i = first; i < past; i++) cuts.push([idle.starts[i], idle.ends[i]]);
    }
    return cuts.sort((a, b) => a[0] - b[0]);
  }

  // Draws the view, and returns how many rectangles that took and whether tiles were all there is of a part.
  function draw(canvas, data, view) {
    const paint = drawing.colors(), pen = canvas.getContext("2d"), { low, high, width, marked } = view;
    const x_of = (time) => (time - low) / (high - low) * width;
    // To whole pixels, or there would be seams between tiles.
    const ratio = canvas.width / width, even = (x) => Math.round(Math.min(Math.max(x, -2), width + 2) * ratio) / ratio;
    let boxes, names, of_label;
    let drawn = 0, is_coarse = false;
    const is_faint = (label) => marked !== null && marked !== label;
    const boxes_of = (shade, faint) => {
      if (shade.painted !== `${paint.bg} ${view.coloring}`) {
        shade.painted = `${paint.bg} ${view.coloring}`;
        shade.color = color_of(shade, data, paint, view.coloring);
        shade.faint = drawing.mix(shade.color, paint.bg, 0.2);
        shade.ink = drawing.ink(shade.color);
      }
      const color = faint ? shade.faint : shade.color;
      if (!boxes.has(color)) boxes.set(color, []);
      return boxes.get(color);
    };
    // `shade`: the name that has the color, which is another one's where ranges have the colors.
    const put = (label, left, y, right, tall, shade = label) => {
      const known = of_label[+is_faint(label)];
      let all = known.get(shade);
      if (!all) known.set(shade, all = boxes_of(shade, is_faint(label)));
      const top = y + ROW - 2 - tall, n = all.length;
      // What looks like a part of the box before it is drawn as one.
      if (n && all[n - 4] + all[n - 2] === left && all[n - 3] === top && all[n - 1] === tall && right - left < 3) {
        all[n - 2] = right - all[n - 4];
        return;
      }
      all.push(left, top, Math.max(right - left, 1), tall);
      drawn++;
    };
    const name = (text, label, left, y, right, shade = label) => {
      if (right - left - 2 > LEGIBLE) names.push({ text, label, shade, left, y, room: right - left - 2 });
    };
    const rows = in_sight(data, view);
    // The lanes that are pinned, or the others.
    function draw_lanes(is_pinned) {
      // Boxes by color: left, top, width, height, and the next.
      [boxes, names, of_label] = [new Map(), [], [new Map(), new Map()]];
      for (const lane of data.lanes.filter((each) => !each.is_hidden && (each.account || each.counter) && !each.is_pinned === !is_pinned)) {
        const y = y_of(lane, view), drawer = lane.account ? lanes_account : lanes_counters;
        if (y > -lane.height && y < view.height) drawn += drawer.draw(pen, paint, lane, view, y);
      }
      for (const [row, y, { tiles, shown, events, known }] of rows.filter(([{ lane }]) => !lane.is_pinned === !is_pinned)) {
        // Tiles of one name that lie side by side have one name: from where on, and where the last ends.
        let same = null, from = 0, reach = 0, until = 0;
        if (tiles) is_coarse ||= known !== undefined && !known.some((part) => holds(part, low, high));
        const cuts = known && without(row, known, view);
        for (let i = tiles ? shown[0] : 0; tiles && i < shown[1]; i++) {
          const start = tiles.start[i], end = start + tiles.width;
          const label = data.labels[tiles.label[i]], rest = cuts ? outside(cuts, start, end) : [[start, end]];
          const room = rest.reduce((sum, [begun, over]) => sum + over - begun, 0);
          const tall = Math.max(Math.round((ROW - 2) * Math.min(tiles.busy[i] / room, 1)), 2), is_named = tall > ROW - 6;
          for (const [begun, over] of rest) {
            const left = even(x_of(begun)), right = even(x_of(over));
            put(label, left, y, right, tall);
            if (same && (!is_named || same !== label || until !== begun)) {
              name(same.text, same, from, y, reach);
              same = null;
            }
            if (is_named && !same) [same, from] = [label, left];
            [reach, until] = [right, over];
          }
        }
        if (same) name(same.text, same, from, y, reach);
        for (const event of events) {
          const left = even(x_of(event.start)), right = even(x_of(event.end));
          const shade = view.coloring === "range" ? range_of(event, data) : view.coloring === "own" && event.own || event.label;
          put(event.label, left, y, right - (right - left > 3 ? 0.5 : 0), ROW - 2, shade);
          name(event.text, event.label, left, y, right, shade);
        }
      }
      for (const [color, all] of boxes) {
        pen.fillStyle = color;
        for (let i = 0; i < all.length; i += 4) pen.fillRect(all[i], all[i + 1], all[i + 2], all[i + 3]);
      }
      pen.font = "11px system-ui, sans-serif";
      for (const { text, label, shade, left, y, room } of names) {
        pen.fillStyle = is_faint(label) ? paint.fg : shade.ink;
        drawing.write(pen, text, left, y, room, ROW);
      }
    }
    ruler(pen, paint, view, x_of);
    // What is scrolled away passes below the times and the pinned lanes.
    pen.save();
    pen.beginPath();
    pen.rect(0, view.bottom - 2, width, view.height);
    pen.clip();
    pen.fillStyle = paint.line;
    for (const group of data.groups) pen.fillRect(0, group.top - view.scroll + 1, width, 1);
    draw_lanes(false);
    pen.restore();
    if (view.bottom > TOP) {
      draw_lanes(true);
      pen.fillStyle = paint.quiet;
      pen.fillRect(0, view.bottom - 3, width, 1);
    }
    if (view.chosen && !view.chosen.lane.is_hidden) outline(pen, paint, view, data, x_of);
    if (view.selected) select(pen, paint, view, x_of);
    return { drawn, is_coarse };
  }

  function ruler(pen, paint, view, x_of) {
    const { low, high, width, height } = view;
    const room = (high - low) * 110 / width, power = 10 ** Math.floor(Math.log10(room));
    const step = [1, 2, 5, 10].map((n) => n * power).find((each) => each >= room);
    pen.font = "11px system-ui, sans-serif";
    for (let time = Math.ceil(low / step) * step; time <= high; time += step) {
      pen.fillStyle = paint.line;
      pen.fillRect(x_of(time), 0, 1, 14);
      pen.fillStyle = paint.quiet;
      pen.fillText(drawing.moment(time, step), x_of(time) + 3, 11);
      pen.fillStyle = paint.line;
      if (!view.steps.start.length) pen.fillRect(x_of(time), 14, 1, height);
    }
    steps(pen, paint, view, x_of);
  }

  // A line where each step begins, as far as they can be told apart, and their names where there is room.
  const NARROWEST_STEP = 5, NAMED_STEP = 50;
  function steps(pen, paint, view, x_of) {
    const { start, name } = view.steps, { low, high, width, height } = view;
    const first = lanes_data.first_above(start, low), past = lanes_data.first_above(start, high);
    if (width / Math.max(past - first, 1) < NARROWEST_STEP) return;
    for (let i = Math.max(first - 1, 0); i < past; i++) {
      const x = x_of(start[i]), end = i + 1 < start.length ? x_of(start[i + 1]) : width, left = Math.max(x, 0);
      pen.fillStyle = paint.line;
      if (x >= 0) pen.fillRect(x, 15, 1, height);
      pen.fillStyle = paint.quiet;
      if (Math.min(end, width) - left > NAMED_STEP) drawing.write(pen, name[i], left, 15, Math.min(end, width) - left, 13);
    }
  }

  // Where an event lies and how tall it is: in all rows of its lane where it is not known in which.
  function place_of(event, view) {
    const top = y_of(event.lane, view);
    if (event.lane.account || event.lane.counter) return [top, event.lane.height + 2];
    return event.row < 0 ? [top, event.lane.rows.length * ROW] : [top + event.row * ROW, ROW];
  }

  // The chosen event, and lines to what launched it and what it launched.
  function outline(pen, paint, view, data, x_of) {
    const { chosen } = view, [y, tall] = place_of(chosen, view);
    // The arrow to a gap runs below its words.
    const middle = (event) => place_of(event, view).reduce((top, height) => top + height * (event.is_gap ? 0.88 : 0.5));
    const left = Math.max(x_of(chosen.start), -3), right = Math.min(x_of(chosen.end), view.width + 3);
    pen.strokeStyle = paint.fg;
    pen.lineWidth = 2;
    pen.strokeRect(left, y, Math.max(right - left, 2), tall - 2);
    if (chosen.tile) return;
    const call = data.by_id.get(chosen.call);
    const pairs = call ? [[call, chosen]] : (data.launched.get(chosen.id) || []).slice(0, 50).map((op) => [chosen, op]);
    pen.lineWidth = 1.5;
    for (const [from, to] of pairs) {
      if (from.lane.is_hidden || to.lane.is_hidden) continue;
      // A gap was ended by what a call launched.
      const x = x_of(to.is_gap ? to.end : to.start), end = middle(to), begin = [x_of(from.start), middle(from)];
      pen.beginPath();
      pen.moveTo(...begin);
      pen.bezierCurveTo((begin[0] + x) / 2, begin[1], (begin[0] + x) / 2, end, x - 5, end);
      pen.stroke();
      pen.beginPath();
      pen.moveTo(x, end);
      pen.lineTo(x - 6, end - 3.5);
      pen.lineTo(x - 6, end + 3.5);
      pen.fillStyle = paint.fg;
      pen.fill();
    }
  }

  // The selected time, on the selected lanes: those that are pinned, and the others.
  function select(pen, paint, view, x_of) {
    const { from, to } = view.selected, left = x_of(from), right = x_of(to);
    const ends = (lane) => y_of(lane, view) + lane.height;
    for (const is_pinned of [false, true]) {
      const lanes = view.selected.lanes.filter((lane) => !lane.is_hidden && !lane.is_pinned === !is_pinned && (is_pinned || ends(lane) > view.bottom));
      if (!lanes.length) continue;
      const top = Math.max(y_of(lanes[0], view), is_pinned ? 0 : view.bottom - 4), height = Math.max(...lanes.map(ends)) - top;
      pen.globalAlpha = 0.16;
      pen.fillStyle = paint.fg;
      pen.fillRect(left, top, right - left, height);
      pen.globalAlpha = 1;
      pen.strokeStyle = paint.fg;
      pen.lineWidth = 1;
      pen.strokeRect(left, top, right - left, height);
      pen.fillText(duration(to - from), Math.min(Math.max(left + 4, 4), view.width - 70), Math.min(top + height, view.height) - 6);
    }
  }

  // Whether a lane is seen between two heights of the canvas.
  function is_between(lane, view, top, bottom) {
    const y = y_of(lane, view);
    return !lane.is_hidden && y <= bottom && y + lane.height >= top && (lane.is_pinned || Math.min(y + lane.height, bottom) >= view.bottom);
  }

  // The lanes that lie between two heights of the canvas; all where one is that of the times.
  function between(lanes, view, from, to) {
    if (from < TOP) return lanes;
    return lanes.filter((lane) => is_between(lane, view, Math.min(from, to), Math.max(from, to)));
  }

  // What is at a place of the canvas: an event, or a tile in its place; null: nothing.
  function at(data, view, x, y) {
    const time = view.low + x / view.width * (view.high - view.low);
    const near = (view.high - view.low) / view.width * 2;
    const lane = data.lanes.find((each) => is_between(each, view, y, y) && y < y_of(each, view) + each.height);
    if (!lane) return null;
    if (lane.account) return lanes_account.at(lane, view, x);
    if (lane.counter) return lanes_counters.at(lane, view, x);
    const row = lane.rows[Math.floor((y - y_of(lane, view)) / ROW)];
    const { tiles, shown, events } = pieces(data, row, view, view.most);
    // What the place is in counts before what is near.
    const distance = (each) => Math.max(each.start - time, time - each.end, 0);
    const event = events.reduce((best, each) => !best || distance(each) < distance(best) ? each : best, null);
    if (event && distance(event) <= near) return event;
    if (!tiles) return null;
    for (let i = shown[0]; i < shown[1]; i++) {
      if (tiles.start[i] <= time && time < tiles.start[i] + tiles.width) return tile(data, row, tiles, i);
    }
    return null;
  }

  function tile(data, row, level, i) {
    return { tile: true, start: level.start[i], end: level.start[i] + level.width, lane: row.lane,
      row: row.lane.rows.indexOf(row), label: data.labels[level.label[i]], busy: level.busy[i],
      count: level.count[i], most: level.most[i] };
  }

  return { height_of, draw, at, between, TOP, ROW };
})();
