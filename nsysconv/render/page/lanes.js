// The time line: moved, zoomed, searched and selected from by mouse, touch and keys; its state is in the address.
(() => {
  "use strict";
  const source = document.getElementById("lanes-data");
  if (!source) return;
  const data = lanes_data.decode(JSON.parse(source.textContent));
  const part = (name) => document.getElementById(name ? `lanes-${name}` : "lanes");
  const box = part(""), canvas = part("canvas"), scroller = part("scroll"), status = part("event");
  const { duration } = drawing, exact = (ns) => `${ns.toLocaleString("en")} ns`;
  const share = (some, all) => `${(100 * some / Math.max(all, 1)).toFixed(1)} %`;
  const element = (name, properties, ...inside) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...inside);
    return made;
  };

  const whole = [data.first, Math.max(data.last, data.first + 1)];
  const view = Object.assign(drawing.shown_part(...whole, 20, () => { redraw(); remember(); }), { width: 0, height: 0,
    scroll: 0, chosen: null, marked: null, selected: null, pinned: false, most: 0, steps: data.steps, coloring: "class" });
  let pointer = null, waiting = false, full_height = 0, lane_number = Math.max(data.lanes.findIndex((lane) => !lane.account), 0);
  function arrange() {
    ({ height: full_height, bottom: view.bottom } = lanes_groups.arrange(data.groups, lanes_view.height_of));
    part("height").style.height = `${full_height}px`;
    lanes_groups.label(data.groups, part("names"), view.bottom, () => { arrange(); redraw(); }, pin_lane);
  }

  const room = () => Math.max(Math.round(innerHeight * 0.5), 200);

  // On top, where it stays while others are scrolled, or back to its group. Others keep two fifths of the room.
  function pin_lane(lane) {
    const has_room = lane.is_pinned || view.bottom + lane.height <= 0.6 * room();
    if (has_room) lane.is_pinned = !lane.is_pinned;
    status.replaceChildren(element("p", { textContent: !has_room ? `There is no room to pin ${lane.name}: unpin another lane.`
      : `${lane.name} ${lane.is_pinned ? "is pinned on top" : "is not pinned any more"}` }));
    arrange();
    redraw();
    remember();
  }

  function draw() {
    waiting = false;
    const paint = drawing.colors(), height = Math.min(full_height, room());
    const width = drawing.clear(canvas, height, paint);
    if (!width) return;
    Object.assign(view, { width, height, scroll: scroller.scrollTop });
    const { drawn, is_coarse } = lanes_view.draw(canvas, data, view);
    canvas.dataset.drawn = drawn;
    if (view.is_unsaid) say(selection_words(view.selected));
    view.is_unsaid = false;
    part("span").textContent = `${duration(view.high - view.low)} from ${drawing.moment(view.low, (view.high - view.low) / 1000)}`
      + (data.left_out ? `; ${data.left_out} events nest too deeply to be drawn` : "");
    limits(is_coarse);
  }
  const redraw = () => {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  };

  // Where the page has no single events: how to get them.
  function limits(is_coarse) {
    const range = `${Math.floor(view.low)}:${Math.ceil(view.high)}`;
    part("limit").replaceChildren(...is_coarse ? [
      "Single events of this part are not in this page. ",
      element("code", { textContent: `nsysconv report ${data.target} -o part.html --time ${range}` }),
      " makes the page of it; ",
      element("code", { textContent: `nsysconv export ${data.target} -o part.json --to chrome --time ${range}` }),
      " a trace for Perfetto.",
    ] : []);
  }

  // -- moving

  const { show, move, show_all } = view;
  const time_at = (x) => view.low + x / view.width * (view.high - view.low);
  const x_of = (time) => (time - view.low) / (view.high - view.low) * view.width;
  const zoom = (factor, x) => view.zoom(factor, time_at(x));
  // About the pointer, else about what is chosen, else about the middle.
  function zoom_by_key(factor) {
    const { chosen, width } = view, middle = chosen ? x_of((chosen.start + chosen.end) / 2) : -1;
    zoom(factor, pointer !== null ? pointer : middle >= 0 && middle <= width ? middle : width / 2);
  }
  function fit(from, to) {
    const room = Math.max((to - from) * 0.4, 10);
    show(from - room, to + room);
  }
  function reveal(event) {
    if (event.lane.is_hidden) {
      lanes_groups.show(data.groups, event.lane);
      arrange();
    }
    const top = event.lane.top + Math.max(event.row, 0) * lanes_view.ROW;
    if (event.lane.is_pinned) return;
    if (top < scroller.scrollTop + view.bottom - lanes_view.TOP || top + 40 > scroller.scrollTop + scroller.clientHeight) {
      scroller.scrollTop = top - view.bottom;
    }
  }

  // -- the address: `#time=FROM:TO&event=kernel:5&select=FROM:TO&pin=3`, of some lanes with `:FIRST:LAST` or `:1,4`. Another length of time is
  // a step that the browser's Back undoes; a time moved sideways takes the place of the one before.

  let remembering = 0, length = whole[1] - whole[0], is_followed = false;
  // Lanes in the address: FIRST:LAST, or one by one.
  const each_number = (lanes) => lanes.map((lane) => data.lanes.indexOf(lane)).join();
  function numbers(lanes) {
    const [first, last] = [lanes[0], lanes[lanes.length - 1]].map((lane) => data.lanes.indexOf(lane));
    return last - first + 1 === lanes.length ? `${first}:${last}` : each_number(lanes);
  }
  function of_numbers(text) {
    const [first, last] = text.split(":");
    return last ? data.lanes.slice(+first, +last + 1) : text.split(",").map((number) => data.lanes[number]).filter(Boolean);
  }
  const own_address = /^#(time|event|select)=/;
  function remember() {
    clearTimeout(remembering);
    const before = location.hash;
    remembering = setTimeout(() => {
      const is_whole = view.low === whole[0] && view.high === whole[1], id = view.pinned && view.chosen && view.chosen.id;
      const { selected } = view, pins = each_number(lanes_groups.pinned(data.groups)), parts = is_whole && !id && !selected && !pins ? [] : [`time=${Math.round(view.low)}:${Math.round(view.high)}`];
      if (id) parts.push(`event=${id}`);
      if (selected) {
        parts.push(`select=${selected.from}:${selected.to}${selected.lanes.length < data.lanes.length ? `:${numbers(selected.lanes)}` : ""}`);
      }
      if (pins) parts.push(`pin=${pins}`);
      const address = parts.length ? `#${parts.join("&")}` : own_address.test(location.hash) ? "#lanes" : location.hash;
      const is_step = !is_followed && Math.abs(view.high - view.low - length) > 1;
      [length, is_followed] = [view.high - view.low, false];
      // An address that was asked for since then is followed, and not written over.
      if (address !== location.hash && location.hash === before) history[is_step ? "pushState" : "replaceState"](null, "", address);
    }, 250);
  }
  function follow() {
    const asked = Object.fromEntries(location.hash.slice(1).split("&").map((each) => each.split("=")));
    const time = /^(-?\d+):(-?\d+)$/.exec(asked.time || ""), event = data.by_id.get(asked.event);
    const part = /^(-?\d+):(-?\d+)(?::([\d,:]+))?$/.exec(asked.select || "");
    if (!time && !event && !part && !/^[a-z_]+:\d+$/.test(asked.event || "")) return;
    is_followed = true;
    if (asked.pin) {
      for (const lane of data.lanes) lane.is_pinned = of_numbers(asked.pin).includes(lane);
      arrange();
    }
    if (!event && asked.event) {
      status.replaceChildren(element("p", { textContent: `${asked.event} is not in this page: ` },
        element("code", { textContent: `nsysconv why ${data.target} ${asked.event}` })));
    }
    if (part) select(+part[1], +part[2], part[3] ? of_numbers(part[3]) : data.lanes);
    else if (event) pin(event); else leave();
    if (time) show(+time[1], +time[2]); else if (event) fit(event.start, event.end);
    if (event) reveal(event);
    box.scrollIntoView({ block: "start" });
    canvas.focus({ preventScroll: true });
  }
  // Back to where nothing is asked for.
  addEventListener("popstate", () => {
    if (!["", "#lanes"].includes(location.hash)) return;
    is_followed = true;
    leave();
    show_all();
  });
  addEventListener("hashchange", follow);
  // A link to the address that is there already is followed, too.
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) follow();
  });

  // -- what is said of the chosen one

  // What was clicked, or gone to, stays chosen while the pointer moves on.
  function pin(event) {
    if (event) lane_number = data.lanes.indexOf(event.lane);
    if (event) view.selected = null;
    view.pinned = Boolean(event);
    choose(event);
    remember();
  }

  function choose(event) {
    if (event === view.chosen) return;
    view.chosen = event;
    redraw();
    if (!event) return;
    say(event.is_gap ? gap_words(event) : event.tile ? tile_words(event) : event_words(event));
  }
  // From the first time on with room for all that may be said: what is below does not jump.
  function say(elements) {
    status.classList.add("said");
    status.replaceChildren(...elements);
  }
  function selection_words(selection) {
    const said = lanes_selection.said(data, selection), { from, to } = selection;
    const line = ({ label, words }) => element("li", { title: `${label.text}: ${words}` }, element("span", { textContent: label.short }), words);
    const lists = said.lists.map(({ title, lines, more }) => element("div", {},
      element("h4", { textContent: more > 0 ? `${title}, ${lines.length} of ${(lines.length + more).toLocaleString("en")}` : title }),
      element("ol", {}, ...lines.map(line))));
    const button = (textContent, act) => {
      const made = element("button", { type: "button", textContent });
      made.addEventListener("click", () => { act(); canvas.focus({ preventScroll: true }); });
      return made;
    };
    return [element("div", { className: "tools" }, element("p", {}, element("b", { textContent: said.head })), button("zoom to it", () => fit(from, to)),
      button("clear", leave), shell(`nsysconv report ${data.target} --time ${from}:${to}`)), ...said.gpus.map((textContent) => element("p", { textContent })),
    ...said.is_known ? [] : [element("p", { className: "quiet", textContent: "Not all events of this time are in this page: the command has all." })],
    element("div", { className: "selected" }, ...lists)];
  }
  // A command, to be copied.
  function shell(text) {
    const button = element("button", { type: "button", textContent: "Copy" });
    button.setAttribute("aria-label", `Copy ${text}`);
    button.addEventListener("click", async () => {
      await clipboard.copy(text);
      button.textContent = "Copied";
    });
    return element("div", { className: "quiet tools shell" }, element("p", {}, element("code", { textContent: text })), button);
  }
  const kind_of = ({ label, sort }) => sort || data.kinds[label.kind];
  function gap_words(gap) {
    const said = lanes_account.gap_words(gap, data).map((textContent) => element("p", { textContent }));
    const ended = data.by_id.get(gap.event);
    if (ended) {
      const button = element("button", { type: "button", textContent: "show what ended it" });
      button.addEventListener("click", () => go(ended));
      said.push(element("p", { className: "tools" }, button));
    }
    if (gap.id) said.push(command(gap.id));
    return said;
  }
  const command = (id) => shell(`nsysconv why ${data.target} ${id}`);
  function tile_words(tile) {
    if (tile.said) return [element("p", { textContent: tile.said })];
    const count = `${tile.count.toLocaleString("en")} event${tile.count === 1 ? "" : "s"}`;
    return [element("p", { textContent: `${tile.lane.name}, ${duration(tile.end - tile.start)} from `
      + `${exact(tile.start)}: busy for ${share(tile.busy, tile.end - tile.start)}, ${count} began; most time: `
      + `${kind_of(tile)} ${tile.label.text}, ${duration(tile.most)}` }), ...name_words(tile)];
  }
  function event_words(event) {
    const said = [element("p", { textContent: `${kind_of(event)} on ${event.lane.name}: ${event.text}, `
      + `${duration(event.end - event.start)} from ${exact(event.start)}` })];
    const more = [], call = data.by_id.get(event.call);
    if (call) {
      const since = event.start - call.end;
      more.push(`launched by ${call.text} on ${call.lane.name}`
        + (data.on_one_clock ? `, called ${duration(event.start - call.start)} before` : ""));
      if (data.on_one_clock && since >= 0) more.push(`waited ${duration(since)} after the call`);
    }
    const launched = data.launched.get(event.id) || [];
    if (launched.length) {
      const first = launched[0], are_all = data.parts.some((part) => lanes_data.holds(part, ...whole));
      const several = are_all ? `${launched.length} operations` : `${launched.length} operations of those in this page`;
      more.push(`launched ${launched.length > 1 ? `${several}, first ` : ""}${first.text}`
        + (data.on_one_clock ? `, which began ${duration(first.start - event.start)} after the call` : ""));
    }
    const outer = event.alone ? [] : lanes_data.around(call && !call.alone ? call : event);
    const named = (kind) => outer.filter((each) => data.ids[each.label.kind] === kind && !each.sort)
      .map((each) => each.text);
    if (named("operator").length) more.push(`in the operator ${named("operator")[0]}`);
    if (named("range").length) more.push(`in the range ${named("range").reverse().join(" \u203a ")}`);
    if (more.length) said.push(element("p", { textContent: `${more.join("; ")}.` }));
    said.push(...name_words(event));
    said.push(command(event.id));
    return said;
  }
  // All events of the name, and of which length they are.
  function name_words({ label, tile, start, end }) {
    if (!label.count || label.count < 2) return [];
    const count = `${label.count.toLocaleString("en")} events called ${label.text.slice(0, 80)}: `;
    const words = `${count}${duration(label.sum)} in total, the longest ${duration(label.longest.end - label.longest.start)}`;
    const button = element("button", { type: "button", textContent: "show the longest" });
    button.addEventListener("click", () => go(label.longest));
    return [element("p", { className: "tools" }, words, button), histogram(label, tile ? null : end - start)];
  }
  // The end of the bucket of lengths that begins at 0, 1, 2, 5, 10, 20, 50 and so on.
  const end_of = (bucket) => !bucket ? 1 : `${bucket}`.startsWith("2") ? bucket * 2.5 : bucket * 2;
  function histogram(label, own) {
    const lengths = label.lengths, most = lengths.reduce((top, n, i) => i % 2 ? Math.max(top, n) : top, 0);
    const bars = element("div", { className: "lengths" });
    bars.setAttribute("role", "img");
    const said = [];
    const low = lengths[0], high = lengths[lengths.length - 2];
    for (let bucket = low; bucket <= high; bucket = end_of(bucket)) {
      const i = lengths.findIndex((n, place) => !(place % 2) && n === bucket), count = i < 0 ? 0 : lengths[i + 1];
      const is_own = own !== null && own >= bucket && own < end_of(bucket);
      const words = `${count.toLocaleString("en")} of ${duration(bucket)} to ${duration(end_of(bucket))}`;
      said.push(words + (is_own ? " (as this one)" : ""));
      const bar = element("i", { title: words, className: is_own ? "own" : "" });
      bar.style.height = `${Math.max(100 * count / most, count ? 8 : 0)}%`;
      bars.append(bar);
    }
    bars.setAttribute("aria-label", `By length: ${said.join("; ")}`);
    return element("div", { className: "by-length" }, element("span", { textContent: duration(low) }), bars,
      element("span", { textContent: duration(end_of(high)) }));
  }
  function go(event) {
    pin(event);
    fit(event.start, event.end);
    reveal(event);
    if (status.getBoundingClientRect().top > innerHeight - 40) box.scrollIntoView({ block: "start" }); // what is said is in sight
    canvas.focus({ preventScroll: true }); // where N and P go on
  }

  // -- search

  const MOST_FOUND = 12, input = part("search"), found = part("found");
  const has = (text) => text.toLowerCase().includes(input.value.trim().toLowerCase());
  const more = (all, what) => all.length > MOST_FOUND
    ? [element("li", { textContent: `and ${(all.length - MOST_FOUND).toLocaleString("en")} more ${what}` })] : [];
  const entry = (title, textContent, act) => {
    const button = element("button", { type: "button", title, textContent });
    button.addEventListener("click", act);
    return element("li", {}, button);
  };
  // The events of the page, one by one, whose names have the words; in the order of time.
  let matches = [];
  function search() {
    const is_asked = Boolean(input.value.trim());
    view.marked = null;
    const names = is_asked ? data.labels.filter((label) => has(label.text)) : [], of_names = new Set(names);
    names.sort((a, b) => (b.sum || 0) - (a.sum || 0));
    matches = is_asked ? [...data.by_id.values()].filter((event) => of_names.has(event.label) || has(event.text)) : [];
    matches.sort((a, b) => a.start - b.start || b.end - a.end);
    // Names with what distinguishes events of a group, such as arguments.
    const single = names.length ? [] : matches;
    found.replaceChildren(...matches.length ? [steps()] : [], ...single.slice(0, MOST_FOUND).map((event) =>
      entry(event.text, `${event.id} ${event.text.slice(0, 60)}, ${duration(event.end - event.start)}`, () => go(event))),
    ...names.slice(0, MOST_FOUND).map((label) => {
      const known = label.count ? `, ${label.count.toLocaleString("en")} in ${duration(label.sum)}` : "";
      return entry(label.text, `${kind_of({ label })} ${label.short}${known}`, () => {
        view.marked = label;
        if (label.longest) go(label.longest); else redraw();
      });
    }), ...more(names, "names"), ...more(single, "events"),
    ...is_asked && !names.length && !single.length ? [element("li", { textContent: "no name holds that" })] : []);
    redraw();
  }
  function steps() {
    const place = element("span", { id: "lanes-match", textContent: match_words() });
    const step = (direction, textContent, name) => {
      const button = element("button", { type: "button", textContent });
      button.setAttribute("aria-label", name);
      button.addEventListener("click", () => go_to_match(direction));
      return button;
    };
    return element("li", { className: "steps" }, step(-1, "\u2039", "previous match"), step(1, "\u203a", "next match"), place);
  }
  function match_words() {
    const at = matches.indexOf(view.chosen), count = matches.length.toLocaleString("en");
    return at < 0 ? `${count} in this page` : `${(at + 1).toLocaleString("en")} of ${count} in this page`;
  }
  function go_to_match(direction) {
    if (!matches.length) return;
    const at = matches.indexOf(view.chosen), focus = document.activeElement;
    const first = matches.findIndex((event) => event.start >= view.low);
    const wanted = at >= 0 ? at + direction : first < 0 ? 0 : first;
    go(matches[(wanted + matches.length) % matches.length]);
    focus.focus({ preventScroll: true });
    part("match").textContent = match_words();
  }
  function close_search() {
    input.value = "";
    search();
    canvas.focus({ preventScroll: true });
  }
  input.addEventListener("input", search);
  part("").addEventListener("keydown", (event) => {
    const in_search = event.target === input || found.contains(event.target);
    if (!in_search || !["Escape", "Enter"].includes(event.key) || (event.key === "Enter" && event.target !== input)) return;
    event.preventDefault();
    if (event.key === "Escape") close_search(); else go_to_match(event.shiftKey ? -1 : 1);
  });

  // -- keys

  // Of those that start together the outer comes before the inner.
  function beside(lane, start, number, direction) {
    let best = null;
    const is_closer = (one, other) => !other || direction * (one.start - other.start || one.row - other.row) < 0;
    lane.rows.forEach((row, i) => {
      const after = lanes_data.first_above(row.starts, i > number ? start - 1 : start);
      const before = lanes_data.first_above(row.starts, i < number ? start : start - 1) - 1;
      const event = row.events[direction > 0 ? after : before];
      if (event && is_closer(event, best)) best = event;
    });
    return best;
  }
  function seen_first(lane, low) {
    const seen = lane.rows.map((row) => row.events[lanes_data.first_above(row.ends, low)]).filter(Boolean);
    return seen.reduce((best, event) => !best || event.start < best.start ? event : best, null);
  }
  function next(direction) {
    const lane = data.lanes[lane_number], { chosen, low, high } = view;
    const is_here = chosen && !chosen.tile && chosen.lane === lane && chosen.row >= 0 && !chosen.alone;
    const event = is_here ? beside(lane, chosen.start, chosen.row, direction)
      : seen_first(lane, low) || beside(lane, high, -1, -1);
    if (!event) {
      const end = direction > 0 ? "last" : "first";
      const words = is_here ? `this is the ${end} event that is known` : "no single event is known";
      status.replaceChildren(element("p", { textContent: `${lane.name}: ${words}` }));
      return;
    }
    const before = is_here ? chosen.start : low, [from, to] = [Math.min(before, event.start), Math.max(before, event.start)];
    if (event.end < low || event.start > high) show(event.start - (high - low) / 2, event.start + (high - low) / 2);
    pin(event);
    reveal(event);
    if (!data.parts.some((part) => lanes_data.holds(part, Math.max(from, data.first), to))) {
      status.append(element("p", { className: "quiet", textContent: "Events on the way there are not in this page." }));
    }
  }
  function lane(direction) {
    const seen = data.lanes.map((each, number) => number).filter((number) => !data.lanes[number].is_hidden);
    const at = direction > 0 ? seen.findIndex((number) => number > lane_number) : seen.findLastIndex((number) => number < lane_number);
    if (at >= 0) lane_number = seen[at];
    if (!data.lanes[lane_number].is_pinned) scroller.scrollTop = data.lanes[lane_number].top - view.bottom;
    pin(null);
    status.replaceChildren(element("p", { textContent: `${data.lanes[lane_number].name}: N is the next event` }));
    redraw();
  }
  function select(from, to, lanes = data.lanes) {
    const [low, high] = [Math.max(Math.round(Math.min(from, to)), whole[0]), Math.min(Math.round(Math.max(from, to)), whole[1])];
    view.selected = high > low && lanes.length ? { from: low, to: high, lanes } : null;
    view.chosen = null;
    view.pinned = Boolean(view.selected);
    view.is_unsaid = Boolean(view.selected); // until it is drawn: as it is dragged it changes more often
    redraw();
    remember();
  }
  function leave() {
    if (view.selected) say([]);
    view.selected = null;
    return pin(null);
  }
  const chosen_time = () => view.selected ? [view.selected.from, view.selected.to] : view.chosen && [view.chosen.start, view.chosen.end];
  drawing.keys(canvas, box, {
    "+": () => zoom_by_key(0.5), "=": () => zoom_by_key(0.5), "-": () => zoom_by_key(2), "\u2212": () => zoom_by_key(2),
    w: () => zoom_by_key(0.5), s: () => zoom_by_key(2), a: () => move(-0.2), d: () => move(0.2),
    ArrowLeft: () => move(-0.2), "\u2190": () => move(-0.2), ArrowRight: () => move(0.2), "\u2192": () => move(0.2),
    "0": show_all, Home: show_all, n: () => next(1), p: () => next(-1),
    t: () => pin_lane(data.lanes[lane_number]), ArrowDown: () => lane(1), ArrowUp: () => lane(-1), "/": () => input.focus(),
    f: () => chosen_time() && fit(...chosen_time()),
    Escape: () => found.children.length ? close_search() : leave(), m: () => view.selected ? leave() : view.chosen && select(view.chosen.start, view.chosen.end),
  });

  // -- mouse and touch

  drawing.gestures(canvas, {
    zoom,
    move: (pixels) => move(pixels / view.width),
    point([x, y], is_mouse) {
      const event = lanes_view.at(data, view, x, y);
      pointer = is_mouse ? x : null;
      if (document.activeElement === document.body) canvas.focus({ preventScroll: true }); // for W, A, S and D
      if (!view.pinned) choose(event || view.chosen);
      if (is_mouse) point_out(event, x, y);
    },
    click: ([x, y]) => pin(lanes_view.at(data, view, x, y)),
    drag([from], [to, y], began) {
      tip.hidden = true;
      const time = time_at(from) - time_at(to);
      if (began.shift || began.is_touch) show(view.low + time, view.high + time);
      else select(time_at(began.x), time_at(to), lanes_view.between(data.lanes, view, began.y, y));
    },
  });
  const tip = part("tip");
  function point_out(event, x, y) {
    tip.hidden = !event;
    if (!event) return;
    tip.textContent = event.said || `${event.text || event.label.text}, ${duration(event.end - event.start)}`;
    const { left, top } = canvas.getBoundingClientRect(), around = box.getBoundingClientRect();
    tip.style.top = `${top - around.top + y + 18}px`;
    tip.style.left = `${Math.max(Math.min(left - around.left + x, around.width - tip.offsetWidth), 0)}px`;
  }
  canvas.addEventListener("pointerleave", () => { pointer = null; tip.hidden = true; });
  scroller.addEventListener("scroll", redraw);

  const colors = part("colors");
  if (!data.labels.some(({ kind }) => data.ids[kind] === "range")) colors.querySelector("[value=range]").remove();
  if (!data.colors.length) colors.querySelector("[value=own]").remove();
  colors.addEventListener("change", () => { view.coloring = colors.value; redraw(); });

  box.hidden = false;
  arrange();
  drawing.keep_drawn(canvas, draw);
  follow();
})();
