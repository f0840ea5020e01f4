import { existsSync } from 'node:fs'

// The headless shell is preferred, because it needs a quarter less CPU time than Chromium itself.
const installed = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'] as const
const executablePath = process.env.CHROMIUM ?? installed.find((path) => existsSync(path)) ?? installed[1]

/** Launch options for Chromium. They disable its background requests. */
export const chromiumOptions = {
  executablePath,
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--no-first-run',
    // Accepts self-signed certificates inside the TLS handshake. With `ignoreHTTPSErrors` alone, the handshake fails and
    // Chromium starts the request again. The next connection may belong to another request and fail too; after 32 such
    // restarts, the request fails with ERR_TOO_MANY_RETRIES.
    '--ignore-certificate-errors',
  ],
}

/** The timeout for an element, a navigation or an event. A busy machine may need more than the default of 30 s. */
export const maxWaitMs = 180_000

/** The reason to skip browser tests, or false if they can run. */
export const skip = existsSync(executablePath) ? false : `there is no Chromium at ${executablePath}`
