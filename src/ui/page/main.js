// main.js: takes the token out of the address, chooses the view that the address names, and says if the server is gone.
//
// A view module exports `title` and `open(argument, more)`, which returns {element, enter, leave}; enter and leave are
// optional. Views that keep what was typed (new run, talk) are built once.

import {fill, h, setText, toggle} from './dom.js';
import * as newRun from './new_run.js';
import {get, setToken, token, watchReach} from './requests.js';
import * as run from './run.js';
import * as runs from './runs.js';
import * as talk from './talk.js';

const kViews = {
  runs,
  new: newRun,
  run,
  talk
};
const kKept = new Set(['new', 'talk']);

const kept = new Map();
let shown = null;
const main = document.getElementById('main');

function takeToken() {
  const match = /^#([0-9a-f]{32})$/.exec(location.hash);
  if (!match) return;
  setToken(match[1]);
  history.replaceState(null, '', `${location.pathname}#/runs`);
}

function route() {
  const [, name = '', argument = '', more = ''] = location.hash.split('/');
  if (!Object.hasOwn(kViews, name)) return null;
  try {
    return {name, argument: decodeURIComponent(argument), more};
  } catch {
    return {name, argument: '', more};
  }
}

function viewOf({name, argument, more}) {
  if (kept.has(name)) return kept.get(name);
  const view = kViews[name].open(argument, more);
  if (kKept.has(name)) kept.set(name, view);
  return view;
}

function mark(name) {
  for (const link of document.querySelectorAll('#nav a')) {
    const here = link.dataset.view === (name === 'run' ? 'runs' : name);
    if (here)
      link.setAttribute('aria-current', 'page');
    else
      link.removeAttribute('aria-current');
  }
}

function show() {
  takeToken();
  const where = route();
  if (!where) {
    location.replace('#/runs');
    return;
  }
  shown?.leave?.();
  shown = viewOf(where);
  fill(main, shown.element);
  mark(where.name);
  document.title = `${kViews[where.name].title} · Windlass`;
  main.focus({preventScroll: true});
  shown.enter?.(where.argument);
  window.scrollTo(0, 0);
}

function needToken() {
  fill(
      main,
      h('div', {class: 'empty panel', id: 'no-token'}, h('h2', null, 'This address has no token'),
        h('p', null, 'Open the address that ', h('code', null, 'windlass ui'), ' printed.')));
}

function bannerOf(reach) {
  if (reach === 'gone')
    return [
      'windlass ui is not answering. Runs continue without it. Start it again with ', h('code', null, 'windlass ui'),
      ' and open the address that it prints.'
    ];
  return [
    'windlass ui does not accept the token of this page: it was started again. Open the address that it printed.'
  ];
}

function showReach(reach) {
  const banner = document.getElementById('banner');
  if (reach !== 'up') fill(banner, bannerOf(reach));
  toggle(banner, reach !== 'up');
}

async function about() {
  try {
    const {version, root} = await get('/api/about');
    setText(document.getElementById('about'), `${root} · ${version}`);
    document.getElementById('about').title = `Folder: ${root}`;
  } catch {
    // The banner says why.
  }
}

function begin() {
  takeToken();
  document.getElementById('skip').addEventListener('click', (event) => {
    event.preventDefault();
    main.focus();
  });
  if (!token()) {
    window.addEventListener('hashchange', () => location.reload());
    needToken();
    return;
  }
  watchReach(showReach);
  window.addEventListener('hashchange', show);
  window.addEventListener('pagehide', () => kept.get('talk')?.close());
  about();
  show();
}

begin();
