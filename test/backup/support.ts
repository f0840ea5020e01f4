import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { type Created, type CreateOptions, createBackup } from '../../src/backup/create.ts'
import { newBackupFile } from '../../src/backup/file.ts'
import { type BackupSource, placeOf } from '../../src/backup/place.ts'
import { type Restored, restoreBackup } from '../../src/backup/restore.ts'
import { type OpenedBackup, verifyBackup } from '../../src/backup/verify.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { type Config, readConfig } from '../../src/config/config.ts'
import type { Service } from '../../src/lifecycle.ts'
import { startService } from '../../src/start.ts'
import { quickWorkFactor } from '../support/app.ts'
import { withoutLimits } from '../support/limits.ts'

export const passphrase = 'correct horse battery staple'

/** Creates a folder that `remove` removes. */
export function newFolder(): { folder: string; remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-backup-'))
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

/** Returns the configuration of a service in this folder. */
export const configIn = (folder: string, env: Record<string, string> = {}): Config =>
  readConfig({
    ...withoutLimits,
    ...{ PLINTH_DATA_DIR: join(folder, 'data'), PLINTH_HTTP_PORT: '0', PLINTH_DRAIN: '0', PLINTH_LOG_LEVEL: 'silent' },
    ...{ PLINTH_BOOTSTRAP_CLIENT_ID: 'boot', PLINTH_BOOTSTRAP_CLIENT_SECRET: 'boot secret' },
    ...{ PLINTH_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8', PLINTH_WEBHOOK_ALLOW_HTTP: 'true' },
    ...env,
  })

export const placeIn = (config: Config): BackupSource => placeOf(config, config.storage.dataDir)

export interface Answer {
  status: number
  bytes: Buffer
  // biome-ignore lint/suspicious/noExplicitAny: tests assert a body member by member
  json: () => any
}

export interface Serving extends Service {
  call: (
    method: string,
    path: string,
    options?: { token?: string; body?: unknown; headers?: Record<string, string> },
  ) => Promise<Answer>
  token: () => Promise<string>
}

/** Starts a service in this process; `close` stops it. */
export async function serve(config: Config): Promise<Serving> {
  const service = await startService(config, builtIn, 'test')
  const agent = new Agent({ connect: { ca: readFileSync(service.authorityFile as string) } })
  const send = async (method: string, path: string, headers: Record<string, string>, body?: string) => {
    const url = service.baseUrl + path
    const response = await request(url, { method: method as 'GET', headers, body, dispatcher: agent })
    const bytes = Buffer.from(await response.body.arrayBuffer())
    return { status: response.statusCode, bytes, json: () => JSON.parse(bytes.toString()) }
  }
  return {
    ...service,
    call: (method, path, { token, body, headers } = {}) =>
      send(
        method,
        path,
        {
          ...(token && { authorization: `Bearer ${token}` }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        body === undefined ? undefined : JSON.stringify(body),
      ),
    token: async () => {
      const authorization = `Basic ${Buffer.from('boot:boot+secret').toString('base64')}`
      const headers = { authorization, 'content-type': 'application/x-www-form-urlencoded' }
      return (await send('POST', '/oauth/token', headers, 'grant_type=client_credentials')).json().access_token
    },
    close: async () => {
      await agent.destroy()
      await service.close()
    },
  }
}

const unending = () => new AbortController().signal

/** Writes a backup of the data in `place` to a file. */
export const backUp = async (place: BackupSource, file: string, more: Partial<CreateOptions> = {}): Promise<Created> =>
  createBackup(
    {
      ...{ place, version: 'test', passphrase: null, workFactor: quickWorkFactor, withKeys: true, now: Date.now },
      ...{ random: (size: number) => randomBytes(size), signal: unending(), onProgress: () => {} },
      ...more,
    },
    await newBackupFile(file),
  )

const opening = (file: string, secret: string) => ({
  ...{ file, passphrase: async () => secret, signal: unending(), onProgress: () => {} },
})

export const verify = (file: string, secret = passphrase): Promise<OpenedBackup> => verifyBackup(opening(file, secret))

export const restoreTo = (
  place: BackupSource,
  file: string,
  backupsUrl = `file:${place.dataDir}/backups`,
): Promise<Restored> => restoreBackup(opening(file, passphrase), { place, backupsUrl })
