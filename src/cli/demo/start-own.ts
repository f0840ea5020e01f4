import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getCACertificates } from 'node:tls'
import { builtIn } from '../../catalog/service.ts'
import { readConfig } from '../../config/config.ts'
import type { Service } from '../../lifecycle.ts'
import { freePort } from '../../serving/listeners.ts'
import { startService } from '../../start.ts'
import { client, type Send } from './api.ts'
import type { Defer } from './ending.ts'
import type { ShowProgress } from './screen.ts'

/** The demo's service. */
export interface OwnService {
  service: Service
  send: Send
}

const host = '127.0.0.1'

/**
 * Starts a service on a free port with a temporary data folder. Ignores the environment, so that the user's configuration
 * has no effect.
 */
export async function ownService(
  version: string,
  showProgress: ShowProgress,
  signal: AbortSignal,
  defer: Defer,
): Promise<OwnService> {
  showProgress('starting')
  const dataDir = mkdtempSync(join(tmpdir(), 'plinth-demo-'))
  defer(() => rmSync(dataDir, { recursive: true, force: true }))
  const port = await freePort(host)
  const service = await startService(readConfig(settings(dataDir, port)), builtIn, version)
  defer(service.close)
  const ca = [...getCACertificates(), readFileSync(service.authorityFile as string, 'utf8')]
  const { send, close } = client({ origin: service.baseUrl, host, port, ca }, signal)
  defer(close)
  return { service, send }
}

/**
 * Returns settings that reduce logging, shorten the shutdown, and turn off the limits that loading the catalogue would
 * exceed.
 */
const settings = (dataDir: string, port: number) => ({
  PLINTH_PROFILE: 'development',
  PLINTH_DATA_DIR: dataDir,
  PLINTH_HOST: host,
  PLINTH_PORT: String(port),
  PLINTH_HTTP_PORT: '0',
  PLINTH_DRAIN: '0',
  PLINTH_LOG_LEVEL: 'error',
  PLINTH_RATE_LIMIT: 'off',
  PLINTH_THROTTLE: 'off',
})
