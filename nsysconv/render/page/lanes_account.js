// The lane on top of each GPU: where its time went. Pieces of the account are exact; where there are none,
// tiles say how much of their time was what. A pixel is filled by what its time consisted of.
const lanes_account = (() => {
  "use strict";
  const HEIGHT = 34, LEGIBLE = 30, PADDING = 3;
  const { duration } = drawing;

  // With three digits: there is little room.
  const rounded = (ns) => duration(+ns.toPrecision(3));

  // The lanes, each with its gaps as the events of its only row.
  function decode({ classes, words, lanes }, texts) {
    return lanes.map((own) => {
      const lane = { name: `${own.name}: where the time went`, device: own.device, rows: [], number: 0, tag: "account" };
      const account = { classes, words, start: [], end: [], place: own.class, gap: [], levels: [] };
      lane.account = account;
      const id_of = (kind, number) => number ? `${kind}:${number}` : null;
      const gaps = own.gaps.id.map((number, i) => ({ id: id_of("gap", number), start: Infinity, end: -Infinity, lane, row: 0, number: i,
        device: own.name, parts: [], label: { kind: -1, text: "gap" }, sort: "gap", is_gap: true, text: "idle",
        during: texts[own.gaps.during[i]], during_ns: own.gaps.during_ns[i], op: texts[own.gaps.op[i]],
        event: id_of(texts[own.gaps.kind[i]], own.gaps.event[i]), call: id_of("api_call", own.gaps.call[i]) }));
      let reach = 0;
      own.start.forEach((step, i) => {
        const at = reach + step;
        reach = at + own.dur[i];
        account.start.push(at);
        account.end.push(at + own.dur[i]);
        const gap = gaps[own.gap[i]] || null;
        account.gap.push(gap);
        if (!gap) return;
        gap.start = Math.min(gap.start, at);
        gap.end = Math.max(gap.end, at + own.dur[i]);
        gap.parts.push([own.class[i], own.dur[i]]);
      });
      for (const gap of gaps) gap.text = `idle ${rounded(gap.end - gap.start)}, ${piece_words(account, gap, largest(gap))}`;
      account.levels = own.levels.map((level) => rest_of(level, account));
      lane.rows = [{ lane, levels: [], events: gaps, starts: gaps.map((gap) => gap.start), ends: gaps.map((gap) => gap.end) }];
      return lane;
    });
  }

  const largest = (gap) => times_of(gap).reduce((best, part) => part[1] > best[1] ? part : best)[0];

  // The parts of a gap as [class, time], each class once.
  function times_of(gap) {
    const times = new Map();
    for (const [place, time] of gap.parts) times.set(place, (times.get(place) || 0) + time);
    return [...times];
  }

  // What is left of the tiles of a width besides the pieces that are known: all times, and what is not in pieces.
  function rest_of({ begin, width, tile, class: place, time }, account) {
    const tiles = [], by_number = new Map(), none = () => new Array(account.classes.length).fill(0);
    let at = 0;
    tile.forEach((step, i) => {
      at += step;
      if (!by_number.has(at)) {
        by_number.set(at, { start: begin + at * width, times: none(), rest: none() });
        tiles.push(by_number.get(at));
      }
      by_number.get(at).times[place[i]] = by_number.get(at).rest[place[i]] = time[i];
    });
    account.start.forEach((start, i) => {
      const end = account.end[i];
      for (let number = Math.floor((start - begin) / width); begin + number * width < end; number++) {
        const edge = begin + number * width, of_tile = by_number.get(number);
        if (of_tile) of_tile.rest[account.place[i]] -= Math.min(end, edge + width) - Math.max(start, edge);
      }
    });
    return { width, tiles, start: tiles.map((each) => each.start) };
  }

  // The pieces between two times, as [first, past].
  const between = ({ start, end }, low, high) => [lanes_data.first_above(end, low), lanes_data.first_above(start, high)];

  // The parts of [from, to) in which no piece is known.
  function unknown(account, from, to) {
    const found = [], [first, past] = between(account, from, to);
    let at = from;
    for (let i = first; i < past; i++) {
      if (account.start[i] > at) found.push([at, account.start[i]]);
      at = Math.max(at, account.end[i]);
    }
    if (at < to) found.push([at, to]);
    return found;
  }

  // The finest tiles that are not narrower than half a pixel.
  function level_for({ levels }, pixel) {
    const fitting = levels.filter((level) => level.width >= pixel / 2);
    return fitting[fitting.length - 1] || levels[0] || null;
  }

  function tiles_between(level, low, high) {
    const first = Math.max(lanes_data.first_above(level.start, low - level.width), 0);
    return level.tiles.slice(first, lanes_data.first_above(level.start, high));
  }

  // How much of each pixel's time was what, pixel by pixel and class by class: 1 is all of it.
  function columns(account, { low, high, width }) {
    const pixel = (high - low) / width, count = account.classes.length, found = new Float64Array(Math.ceil(width) * count);
    const add = (place, from, to, share) => {
      const left = Math.max((from - low) / pixel, 0), right = Math.min((to - low) / pixel, width);
      for (let x = Math.floor(left); x < right; x++) {
        found[x * count + place] += (Math.min(right, x + 1) - Math.max(left, x)) * share;
      }
    };
    const [first, past] = between(account, low, high);
    for (let i = first; i < past; i++) add(account.place[i], account.start[i], account.end[i], 1);
    const level = level_for(account, pixel);
    for (const { start, rest } of level ? tiles_between(level, low, high) : []) {
      const all = rest.reduce((sum, time) => sum + time, 0);
      if (all <= 0) continue;
      const empty = unknown(account, start, start + level.width);
      const room = empty.reduce((sum, [from, to]) => sum + to - from, 0);
      rest.forEach((time, place) => {
        if (time > 0) for (const [from, to] of empty) add(place, from, to, time / room);
      });
    }
    return found;
  }

  // The time of each class in [from, to): exact where pieces are known, elsewhere by the finest tiles.
  function times({ classes, place, start, end, levels }, from, to) {
    const found = classes.map(() => 0), [first, past] = between({ start, end }, from, to), finest = levels[levels.length - 1];
    for (let i = first; i < past; i++) found[place[i]] += Math.min(end[i], to) - Math.max(start[i], from);
    for (const tile of finest ? tiles_between(finest, from, to) : []) {
      const room = (low, high) => unknown({ start, end }, low, high).reduce((sum, [begun, over]) => sum + over - begun, 0);
      const all = room(tile.start, tile.start + finest.width);
      const part = all && room(Math.max(tile.start, from), Math.max(Math.min(tile.start + finest.width, to), from)) / all;
      tile.rest.forEach((time, number) => { found[number] += Math.max(time, 0) * part; });
    }
    return found;
  }

  // Fills the lane, and writes into its gaps; returns how many rectangles that took.
  function draw(pen, paint, lane, view, y) {
    const { account } = lane, count = account.classes.length, found = columns(account, view);
    const tall = (x, place) => Math.round(found[x * count + place] * HEIGHT * 4) / 4;
    let drawn = 0;
    for (let x = 0; x < found.length / count;) {
      let until = x + 1, top = y + HEIGHT;
      const same = (other) => account.classes.every((_, place) => tall(other, place) === tall(x, place));
      while (until < found.length / count && same(until)) until++;
      account.classes.forEach((name, place) => {
        const height = tall(x, place);
        if (!height) return;
        top -= height;
        pen.fillStyle = fill_of(pen, paint, name);
        pen.fillRect(x, top, until - x, height);
        drawn++;
      });
      x = until;
    }
    write(pen, paint, account, view, y);
    return drawn;
  }

  // Idle time is hatched, as in the bars above; each class in its direction.
  const fills = new Map();
  function fill_of(pen, paint, name) {
    const color = paint.of_class(name), key = `${name} ${color}`;
    if (!name.startsWith("idle_")) return color;
    if (!fills.has(key)) {
      const tile = Object.assign(document.createElement("canvas"), { width: 8, height: 8 }), on = tile.getContext("2d");
      on.fillStyle = color;
      on.fillRect(0, 0, 8, 8);
      on.strokeStyle = paint.of("--hatch");
      on.lineWidth = 2;
      on.beginPath();
      const line = (...at) => { on.moveTo(at[0], at[1]); on.lineTo(at[2], at[3]); };
      if (["idle_host", "idle_profiler"].includes(name)) for (const x of [-8, 0, 8]) line(x, 8, x + 8, 0);
      else if (["idle_launch", "idle_unknown"].includes(name)) for (const x of [-8, 0, 8]) line(x, 0, x + 8, 8);
      else if (name === "idle_migration") line(4, 0, 4, 8);
      else line(0, 4, 8, 4);
      on.stroke();
      fills.set(key, pen.createPattern(tile, "repeat"));
    }
    return fills.get(key);
  }

  function piece_words(account, gap, place) {
    const did = account.classes[place] === "idle_host" && gap.during ? `: ${gap.during}` : "";
    return `${account.words[place]}${did}`;
  }

  // The words of each idle piece, as many as there is room for.
  function write(pen, paint, account, { low, high, width }, y) {
    const x_of = (time) => (time - low) / (high - low) * width, [first, past] = between(account, low, high);
    pen.font = "11px system-ui, sans-serif";
    for (let i = first; i < past; i++) {
      const gap = account.gap[i], left = Math.max(x_of(account.start[i]), 0), right = Math.min(x_of(account.end[i]), width);
      const room = right - left - 4 * PADDING;
      if (!gap || room < LEGIBLE) continue;
      const length = rounded(account.end[i] - account.start[i]), full = `${length}, ${piece_words(account, gap, account.place[i])}`;
      const fitting = [full, `${length}, ${account.words[account.place[i]]}`, length];
      const text = fitting.find((each) => pen.measureText(each).width <= room);
      if (!text) continue;
      pen.fillStyle = paint.bg;
      pen.fillRect(left + PADDING, y + HEIGHT / 2 - 8, pen.measureText(text).width + 2 * PADDING, 16);
      pen.fillStyle = paint.fg;
      pen.fillText(text, left + 2 * PADDING, y + HEIGHT / 2 + 4);
    }
  }

  // What is at a place: a gap, a piece of work, or a tile; null: nothing.
  function at(lane, { low, high, width }, x) {
    const { account } = lane, pixel = (high - low) / width, time = low + x * pixel;
    const event = (start, end, said) => ({ tile: true, start, end, lane, row: 0, said });
    let best = null;
    const distance = (i) => Math.max(account.start[i] - time, time - account.end[i], 0);
    const [first, past] = between(account, time - 2 * pixel, time + 2 * pixel);
    for (let i = first; i < past; i++) if (best === null || distance(i) < distance(best)) best = i;
    const level = level_for(account, pixel), tile = level && tiles_between(level, time, time).find(({ start }) => time < start + level.width);
    const is_inside = best !== null && distance(best) === 0;
    if (best !== null && (is_inside || !tile)) {
      const start = account.start[best], end = account.end[best];
      return account.gap[best] || event(start, end,
        `${lane.name}: ${account.words[account.place[best]]} for ${duration(end - start)} from ${start.toLocaleString("en")} ns`);
    }
    if (!tile) return null;
    const times = tile.times.map((spent, place) => [place, spent]).filter(([, spent]) => spent).sort((a, b) => b[1] - a[1]);
    const listed = times.map(([place, spent]) => `${idle(account.classes[place])}${account.words[place]} ${duration(spent)}`);
    return event(tile.start, tile.start + level.width,
      `${lane.name}, ${duration(level.width)} from ${tile.start.toLocaleString("en")} ns: ${listed.join(", ")}`);
  }
  const idle = (name) => name.startsWith("idle_") ? "idle, " : "";

  // What is said of a gap, in sentences.
  function gap_words(gap, data) {
    const { account } = gap.lane, call = data.by_id.get(gap.call);
    const parts = times_of(gap).sort((a, b) => b[1] - a[1]).map(([place, time]) => `${account.words[place]} ${duration(time)}`);
    const did = gap.during ? `; the host was in ${gap.during} for ${duration(gap.during_ns)} of that` : "";
    const name = gap.id ? `${gap.id} on ${gap.device}` : gap.device;
    const said = [`${name}: idle for ${duration(gap.end - gap.start)} from ${gap.start.toLocaleString("en")} ns`,
      `${parts.join(", ")}${did}.`];
    if (!gap.op) return said;
    const of_call = call ? `${call.text} on ${call.lane.name}` : gap.call;
    const since = call && data.on_one_clock ? `, called ${duration(Math.abs(call.start - gap.start))} `
      + `${call.start < gap.start ? "before" : "after"} the gap began` : "";
    said.push(`It ended as ${gap.op} began (${gap.event})${of_call ? `; launched by ${of_call}${since}` : ""}.`);
    return said;
  }

  return { HEIGHT, decode, columns, times, draw, at, gap_words };
})();
