import { existsSync } from 'node:fs'

const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium'

/** How to launch Chromium, without requests of its own. */
export const chromiumOptions = {
  executablePath,
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--no-first-run',
    // Accepts self-signed certificates inside the TLS handshake. `ignoreHTTPSErrors` alone starts each such request
    // again, which sometimes fails with ERR_TOO_MANY_RETRIES.
    '--ignore-certificate-errors',
  ],
}

/** How long a test waits for an element, a navigation or an event. A busy machine may need more than the default of 30 s. */
export const maxWaitMs = 180_000

/** False, or why browser tests are skipped. */
export const skip = existsSync(executablePath) ? false : `there is no Chromium at ${executablePath}`
