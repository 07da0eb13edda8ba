(() => {
  "use strict";
  // As in token_map.py: characters, digits, signs and the smallest exponent.
  const LETTERS = "!#$%()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~";
  const INFLUENCE = [3, 3, 2, -195], ERROR = [2, 2, 1, -60], NATS = [2, 3, 1, -7];
  const CODES = [INFLUENCE, ERROR, INFLUENCE, ERROR, NATS, NATS];
  const LENGTH = CODES.reduce((sum, code) => sum + code[0], 0);

  const number = (text, [length, digits, signs, lowest]) => {
    let place = -2;
    for (let i = 0; i < length; i++) {
      place += LETTERS.indexOf(text[i]) * LETTERS.length ** (length - 1 - i);
    }
    if (place < 0) return place === -2 ? NaN : 0;
    const mantissas = 9 * 10 ** (digits - 1);
    const exponents = Math.floor((LETTERS.length ** length - 2) / (mantissas * signs));
    const m = Math.floor(place / exponents);
    const size = (m % mantissas) + 10 ** (digits - 1);
    return Number(`${m >= mantissas ? "-" : ""}${size}e${(place % exponents) + lowest}`);
  };
  const say = (x) => {
    if (Number.isNaN(x)) return "–";
    const text = x !== 0 && Math.abs(x) < 1e-3 ? x.toExponential() : String(x);
    return text.replace(/^-/, "−");
  };
  const keys = (response) => response.dataset.k.split(" ");
  // What the policy did not write, in <i>, is no token.
  const tokensOf = (row) => [...row.children].filter((part) => part.tagName !== "I");
  const both = (x, se) => (se > 0 ? `${say(x)} ± ${say(se)}` : say(x));

  const words = (token) => {
    const row = token.parentElement;
    const tokens = tokensOf(row);
    const place = tokens.indexOf(token);
    const text = row.dataset.v.slice(place * LENGTH, (place + 1) * LENGTH);
    let from = 0;
    const [e, ese, r, rse, s, h] = CODES.map((code) => number(text.slice(from, (from += code[0])), code));
    const advantage = Number(keys(row.parentElement).at(-1));
    return [
      `token “${token.textContent}”, ${place + 1} of ${tokens.length}`,
      `influence on entropy ${both(e, ese)}`,
      `influence on reward ${both(r, rse)}`,
      `probability ${say(Number(Math.exp(-s).toPrecision(2)))}, log-probability ${say(-s)}`,
      `entropy ${say(h)} nats, advantage ${say(advantage)}`,
    ];
  };

  const heat = document.querySelector(".heat");
  const tip = document.getElementById("tip");
  const told = document.getElementById("told");
  let on = null;

  const hide = () => { tip.hidden = true; };
  const show = (token) => {
    tip.textContent = words(token).join("\n");
    tip.hidden = false;
    const box = token.getClientRects()[0] ?? token.getBoundingClientRect();
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    const above = box.top - tip.offsetHeight - 8;
    tip.style.left = `${scrollX + Math.max(8, Math.min(box.left, room))}px`;
    tip.style.top = `${scrollY + (above > 0 ? above : box.bottom + 8)}px`;
  };
  const leave = () => {
    if (on) {
      on.removeAttribute("data-on");
      on.parentElement.ariaActiveDescendantElement = null;
    }
    on = null;
    hide();
  };
  const enter = (token) => {
    leave();
    on = token;
    // Not by a class, whose letters are colours, nor by an id, which is slow to change.
    on.setAttribute("data-on", "");
    on.parentElement.ariaActiveDescendantElement = on;
    on.scrollIntoView({ block: "nearest" });
    show(on);
    told.textContent = words(on).join(", ");
  };
  const tokenOf = (target) => {
    const token = target.closest?.(".t > :not(i)");
    return token && heat.contains(token) ? token : null;
  };

  // The responses that are shown, in the order of the page.
  let rows = [...heat.querySelectorAll(".t")];
  for (const row of rows) row.setAttribute("role", "listbox");
  const responses = rows.map((row) => row.parentElement);
  const articles = [...heat.querySelectorAll("article")];
  const own = new Map([...responses, ...articles].map((part, place) => [part, place]));

  const order = (first) => {
    const [sign, place] = [first[0] === "-" ? -1 : 1, Number(first.slice(1))];
    const value = (response) => {
      if (!first) return own.get(response);
      const key = sign * Number(keys(response)[place]);
      // Not measured comes last.
      return Number.isNaN(key) ? Infinity : key;
    };
    const compare = (a, b) => value(a) - value(b) || own.get(a) - own.get(b);
    const best = new Map();
    for (const article of articles) {
      const inside = [...article.querySelectorAll(".r")].sort(compare);
      article.append(...inside);
      best.set(article, inside.find((response) => !response.hidden) ?? inside[0]);
    }
    for (const update of heat.querySelectorAll("details")) {
      const inside = [...update.querySelectorAll("article")];
      const compared = (a, b) => (first ? compare(best.get(a), best.get(b)) : own.get(a) - own.get(b));
      update.append(...inside.sort(compared));
    }
  };
  const mark = (row, wanted) => {
    const text = row.textContent.toLowerCase();
    const ends = [];
    for (const token of row.children) ends.push((ends.at(-1) ?? 0) + token.textContent.length);
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
      let place = ends.findIndex((end) => end > at);
      for (; place >= 0 && place < ends.length && (ends[place - 1] ?? 0) < at + wanted.length; place++) {
        row.children[place].setAttribute("data-hit", "");
      }
    }
  };
  const search = (wanted) => {
    for (const token of heat.querySelectorAll("[data-hit]")) token.removeAttribute("data-hit");
    let count = 0;
    for (const response of responses) {
      const row = response.lastElementChild;
      const prompt = response.parentElement.querySelector(".prompt").textContent;
      const has = row.textContent.toLowerCase().includes(wanted);
      response.hidden = !has && !prompt.toLowerCase().includes(wanted);
      if (!response.hidden) count += 1;
      if (has && wanted) mark(row, wanted);
    }
    for (const article of articles) article.hidden = !article.querySelector(".r:not([hidden])");
    document.getElementById("hits").textContent = wanted ? `${count} of ${responses.length} responses` : "";
  };
  const find = document.getElementById("find");
  find.hidden = false;
  const box = document.getElementById("words");
  find.addEventListener("input", (event) => {
    leave();
    if (event.target === box) search(box.value.toLowerCase());
    // A prompt is placed by the first of its responses that are shown.
    order(find.querySelector("input[name=first]:checked").value);
    rows = [...heat.querySelectorAll(".r:not([hidden]) .t")];
  });
  heat.addEventListener("pointerover", (event) => {
    const token = tokenOf(event.target);
    if (token) show(token); else hide();
  });
  heat.addEventListener("pointerleave", hide);
  heat.addEventListener("focusin", (event) => {
    const row = event.target;
    if (!row.matches(".t") || on?.parentElement === row) return;
    const [first] = tokensOf(row);
    for (const token of tokensOf(row)) token.setAttribute("role", "option");
    if (row.matches(":focus-visible") && first) enter(first);
  });
  heat.addEventListener("focusout", leave);
  heat.addEventListener("click", (event) => {
    const token = tokenOf(event.target);
    if (token) { token.parentElement.focus(); enter(token); }
  });
  heat.addEventListener("keydown", (event) => {
    const row = event.target;
    if (!row.matches(".t") || event.ctrlKey || event.altKey || event.metaKey) return;
    const tokens = tokensOf(row);
    const here = on ? tokens.indexOf(on) : -1;
    const last = tokens.length - 1;
    const to = { ArrowRight: Math.min(here + 1, last), ArrowLeft: Math.max(here - 1, 0), Home: 0, End: last }[event.key];
    if (to !== undefined && last >= 0) { enter(tokens[to]); event.preventDefault(); }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const next = rows[rows.indexOf(row) + (event.key === "ArrowDown" ? 1 : -1)];
      if (next) { next.focus(); event.preventDefault(); }
    }
    if (event.key === "Escape") hide();
  });
})();
