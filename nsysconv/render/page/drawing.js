// What the pictures on a canvas share: times that read well, the style sheet's colors, a sharp canvas.
const drawing = (() => {
  "use strict";

  function duration(ns) {
    const [divisor, unit] = Math.abs(ns) >= 1e9 ? [1e9, "s"] : Math.abs(ns) >= 1e6 ? [1e6, "ms"]
      : Math.abs(ns) >= 1e3 ? [1e3, "\u00b5s"] : [1, "ns"];
    return `${+(ns / divisor).toPrecision(6)} ${unit}`;
  }

  // A time of the recording, as exact as the distance to the next that is shown.
  function moment(ns, step) {
    const [divisor, unit] = Math.abs(ns) >= 1e9 ? [1e9, "s"] : Math.abs(ns) >= 1e6 ? [1e6, "ms"]
      : Math.abs(ns) >= 1e3 ? [1e3, "\u00b5s"] : [1, "ns"];
    const digits = Math.min(Math.max(Math.ceil(Math.log10(divisor / Math.max(step, 1))), 0), 9);
    return `${+(ns / divisor).toFixed(digits)} ${unit}`;
  }

  function colors() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    return { of, bg: of("--bg"), fg: of("--fg"), quiet: of("--quiet"), line: of("--line"), card: of("--card"),
      // That of a class of time, by its name: `memcpy`.
      of_class: (name) => of(`--${name}`),
      series: [0, 1, 2, 3, 4, 5, 6, 7, 8].map((i) => of(`--s${i}`)) };
  }

  // Red, green and blue of a color, `#rrggbb` or what `mix` returns.
  function parts(color) {
    return color.startsWith("rgb") ? color.match(/\d+/g).map(Number)
      : (color.length < 7 ? color.replace(/\w/g, "$&$&") : color).match(/\w\w/g).map((n) => parseInt(n, 16));
  }

  // The relative luminance of a color, as WCAG 2 defines it.
  function luminance(color) {
    const linear = parts(color).map((n) => n / 255).map((n) => n <= 0.04045 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  }

  // Black or white, what reads better on a color: one of them has a contrast of 4.58 to 1 at least.
  function ink(color) {
    const light = luminance(color);
    return 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? "#fff" : "#000";
  }

  // So much of a color over another.
  function mix(color, under, share) {
    const [over, below] = [parts(color), parts(under)];
    return `rgb(${over.map((n, i) => Math.round(n * share + below[i] * (1 - share))).join(" ")})`;
  }

  // A color that is given, nearer to gray where it could not be told from the page behind it.
  function apart(color, paint) {
    const [one, other] = [luminance(color), luminance(paint.bg)];
    return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05) < 1.25 ? mix(color, paint.quiet, 0.6) : color;
  }

  // As wide as what it is in, with nothing on it; returns that width, 0 where it is not shown.
  function clear(canvas, height, paint) {
    const ratio = window.devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
    if (!width) return 0;
    // To set its size makes a new canvas, which takes as long as to draw on it.
    const size = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== size[0] || canvas.height !== size[1]) {
      [canvas.width, canvas.height] = size;
      canvas.style.height = `${height}px`;
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = paint.bg;
    pen.fillRect(0, 0, width, height);
    return width;
  }

  // A name in its box, cut off where the box ends.
  function write(pen, text, left, y, width, height) {
    const x = Math.max(left, 0) + 3, room = left + width - x;
    if (room < 2) return;
    if (text.length * 8 < room) { // no letter is as wide; to clip takes many times as long as to write
      pen.fillText(text, x, y + 11.5);
      return;
    }
    pen.save();
    pen.beginPath();
    pen.rect(left, y, width, height);
    pen.clip();
    pen.fillText(text.slice(0, Math.ceil(room / 2)), x, y + 11.5);
    pen.restore();
  }

  // Draws now, and again whenever the room or the colors change.
  function keep_drawn(canvas, draw) {
    new ResizeObserver(draw).observe(canvas.parentElement);
    for (const media of ["(prefers-color-scheme: dark)", "print"]) {
      matchMedia(media).addEventListener("change", draw);
    }
  }

  // What mouse and fingers do on a canvas. Places are [x, y] on it. `point`: the pointer is there and nothing
  // is pressed; `click`: pressed and let go without a move; `drag`: moved from one place to the next, with
  // where and how it began; `zoom`: by a factor about an x; `move`: sideways by so many pixels.
  function gestures(canvas, { point, click, drag, zoom, move }) {
    const fingers = new Map();
    let began = null, moved = false;
    const place = (event) => {
      const { left, top } = canvas.getBoundingClientRect();
      return [event.clientX - left, event.clientY - top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, place(event));
      const [x, y] = place(event);
      began = { x, y, shift: event.shiftKey, is_touch: event.pointerType === "touch" };
      moved = false;
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = place(event), before = fingers.get(event.pointerId);
      if (!before) {
        point(now, event.pointerType === "mouse");
        return;
      }
      const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, xy]) => xy);
      moved ||= other !== undefined || Math.abs(now[0] - before[0]) > 1;
      if (other) {
        const was = Math.abs(before[0] - other[0]), is = Math.abs(now[0] - other[0]);
        if (was > 4 && is > 4) zoom(was / is, (now[0] + other[0]) / 2);
      } else drag(before, now, began);
      fingers.set(event.pointerId, now);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, (event) => {
        fingers.delete(event.pointerId);
        if (end === "pointerup" && !moved) click(place(event));
      });
    }
    canvas.addEventListener("dblclick", (event) => zoom(0.25, place(event)[0]));
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey) zoom(event.deltaY > 0 ? 1.25 : 0.8, place(event)[0]);
      else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX);
      else return; // the page scrolls
      event.preventDefault();
    }, { passive: false });
  }

  // The part from `low` to `high` that is shown of the time from `first` to `last`, at first all of it.
  // `changed` is called whenever it is another one.
  function shown_part(first, last, shortest, changed) {
    const part = {
      low: first,
      high: last,
      show(from, to) {
        const length = Math.min(Math.max(to - from, shortest), last - first);
        part.low = Math.min(Math.max(from, first), last - length);
        part.high = part.low + length;
        changed();
      },
      show_all: () => part.show(first, last),
      // Sideways, by a share of what is shown.
      move(share) {
        const by = (part.high - part.low) * share;
        part.show(part.low + by, part.high + by);
      },
      // `middle` stays where it is.
      zoom: (factor, middle) => part.show(middle - (middle - part.low) * factor, middle + (part.high - middle) * factor),
    };
    return part;
  }

  // What keys do on a canvas, by what they are called, letters in lower case; buttons of its box with
  // `data-key` do the same.
  function keys(canvas, box, acts) {
    canvas.addEventListener("keydown", (event) => {
      const act = acts[event.key] || acts[event.key.toLowerCase()];
      if (event.ctrlKey || event.metaKey || event.altKey || !act) return;
      event.preventDefault();
      act();
    });
    for (const button of box.querySelectorAll("[data-key]")) {
      button.addEventListener("click", () => acts[button.dataset.key]());
    }
  }

  return { shown_part, gestures, keys, duration, moment, colors, ink, mix, apart, clear, write, keep_drawn };
})();
