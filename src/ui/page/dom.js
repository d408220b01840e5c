// dom.js: builds elements. Texts from files become text nodes in which control characters are visible; nothing here
// reads markup.

const svgNamespace = document.querySelector('svg').namespaceURI;
const kTextLimit = 2000;
const kLongLimit = 200000;

// C0 (except tab and line feed), C1, marks that reorder or hide text, line separators.
const kHidden =
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const kProperties = new Set(['value', 'checked', 'disabled', 'hidden', 'selected', 'open', 'indeterminate']);

function escapeOf(character) {
  return '\\u' + character.charCodeAt(0).toString(16).padStart(4, '0');
}

function sizeOf(count) {
  if (count >= 1e6) return (count / 1e6).toFixed(1) + ' MB';
  if (count >= 1e3) return (count / 1e3).toFixed(1) + ' kB';
  return count + ' B';
}

// The text with hidden characters escaped, cut after `limit` characters.
export function clean(text, limit = kTextLimit) {
  const whole = String(text);
  let shown = whole;
  if (whole.length > limit) shown = whole.slice(0, limit).replace(/[\ud800-\udbff]$/, '');
  shown = shown.replace(kHidden, escapeOf);
  return whole.length > limit ? `${shown}… ${sizeOf(whole.length)} in all` : shown;
}

// A text node of up to `limit` characters, for logs, samples and answers.
export function longText(text, limit = kLongLimit) {
  return document.createTextNode(clean(text, limit));
}

function setProp(element, name, value) {
  if (value === undefined || value === null) return;
  if (name === 'listen') {
    for (const [type, handler] of Object.entries(value)) element.addEventListener(type, handler);
  } else if (name === 'css') {
    for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
  } else if (kProperties.has(name)) {
    element[name] = value;
  } else if (value === true) {
    element.setAttribute(name, '');
  } else if (value !== false) {
    element.setAttribute(name, clean(value));
  }
}

function nodeOf(child) {
  return child instanceof Node ? child : document.createTextNode(clean(child));
}

function present(children) {
  return children.flat(Infinity).filter(
      (child) => child !== null && child !== undefined && child !== false && child !== '');
}

function build(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) setProp(element, name, value);
  element.append(...present(children).map(nodeOf));
  return element;
}

// h('button', {class: 'primary', listen: {click: f}}, 'Start')
export function h(tag, props, ...children) {
  return build(document.createElement(tag), props, children);
}

// The same for SVG.
export function s(tag, props, ...children) {
  return build(document.createElementNS(svgNamespace, tag), props, children);
}

export function fill(element, ...children) {
  element.replaceChildren(...present(children).map(nodeOf));
  return element;
}

const filledWith = new WeakMap();

// Fills again only if the key differs, so that polling takes no focus and closes nothing.
export function refill(element, key, make) {
  if (filledWith.get(element) === key) return;
  filledWith.set(element, key);
  fill(element, make());
}

// Sets the text only if it differs, so that polling moves no selection and says nothing twice.
export function setText(element, text) {
  const shown = clean(text ?? '');
  if (element.textContent !== shown) element.textContent = shown;
}

// The property and the attributes of a part that may come and go.
export function toggle(element, shown) {
  if (element.hidden === Boolean(shown)) element.hidden = !shown;
}

// Tells screen readers what has changed.
export function say(text) {
  setText(document.getElementById('said'), text);
}

export function button(label, action, click, props = {}) {
  return h('button', {type: 'button', 'data-action': action, listen: {click}, ...props}, label);
}

async function copy(text, control) {
  let done = 'Copied';
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = 'Not allowed';
  }
  control.textContent = done;
  say(done);
  setTimeout(() => {
    control.textContent = 'Copy';
  }, 1500);
}

// A box of code with a copy button. `set` changes its text.
export function codeBox(name, text, {line = false, wrap = false} = {}) {
  let now = String(text);
  const code = h('pre', {tabindex: 0, 'data-name': name, 'aria-label': name}, longText(now));
  const control =
      h('button', {
        type: 'button',
        class: 'quiet',
        'data-action': 'copy',
        'aria-label': `Copy ${name}`,
        listen: {click: (event) => copy(clean(now, kLongLimit), event.currentTarget)}
      },
        'Copy');
  const element = h('div', {class: `box${line ? ' line' : ''}${wrap ? ' wrap' : ''}`}, code, control);
  const set = (next) => {
    if (next === now) return;
    now = next;
    fill(code, longText(now));
  };
  return {element, set};
}

function columnClass(column) {
  return column.act ? 'act' : column.n ? 'n' : null;
}

// A table in a box that scrolls by itself. A column is {head, n: right-aligned, act: of buttons, always in sight,
// cell(row)}.
export function table(name, columns, rows, {caption} = {}) {
  const cell = (column, row, index) =>
      h(index === 0 ? 'th' : 'td', {class: columnClass(column), scope: index === 0 ? 'row' : null}, column.cell(row));
  const body = h('tbody', null, rows.map((row) => h('tr', null, columns.map((column, i) => cell(column, row, i)))));
  const head = h('tr', null, columns.map((column) => h('th', {scope: 'col', class: columnClass(column)}, column.head)));
  return h(
      'div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption ?? name, 'data-name': name},
      h('table', null, h('thead', null, head), body));
}

export function facts(pairs, props = {}) {
  return h(
      'dl', {class: 'facts', ...props},
      pairs.filter(Boolean).map(
          ([term, value, name]) => h('div', null, h('dt', null, term), h('dd', {'data-name': name}, value))));
}
