// poll.js: calls a function again and again while the page is visible.

// `work` returns the milliseconds until its next call. One call at a time; failures wait as long as `onFailure` says.
export class Poll {
  constructor(work, failureMs = 3000) {
    this.work = work;
    this.failureMs = failureMs;
    this.timer = null;
    this.running = false;
    this.active = false;
    this.wake = () => {
      if (document.visibilityState === 'visible') this.now();
    };
  }

  start() {
    if (this.active) return;
    this.active = true;
    document.addEventListener('visibilitychange', this.wake);
    this.now();
  }

  stop() {
    this.active = false;
    clearTimeout(this.timer);
    document.removeEventListener('visibilitychange', this.wake);
  }

  async now() {
    if (!this.active || this.running) return;
    clearTimeout(this.timer);
    this.running = true;
    let wait = this.failureMs;
    try {
      wait = (await this.work()) ?? this.failureMs;
    } catch (problem) {
      console.debug(problem);
    }
    this.running = false;
    if (this.active && document.visibilityState === 'visible') this.timer = setTimeout(() => this.now(), wait);
  }
}
