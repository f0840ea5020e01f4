import { randomBytes } from 'node:crypto'
import closeWithGrace from 'close-with-grace'
import { createClient, listClients } from '../auth/clients.ts'
import { docsClientId } from '../auth/docs-client.ts'
import { createFirstAdmin } from '../auth/first-admin.ts'
import { passwords } from '../auth/passwords.ts'
import type { Scopes } from '../auth/scopes.ts'
import type { Config } from '../config.ts'
import { auditRecorder } from '../db/audit.ts'
import type { Definition } from '../definition.ts'
import { guessableSecrets } from '../secret-settings.ts'
import { type Service, startService } from '../start.ts'
import { refuseUnsafeProcess } from '../unsafe-process.ts'

const stopLimitMs = 24_000
const parentLookMs = 500

/** Serves a definition until SIGTERM, Ctrl-C or the end of the `npm` that started it; then drains and exits with 0. */
export async function serve(config: Config, definition: Definition, version: string): Promise<void> {
  refuseUnsafeProcess(config)
  const service = await startService(config, definition, version)
  const { close } = closeWithGrace({ delay: stopLimitMs, logger: false }, async ({ err }) => {
    if (err) process.stderr.write(`plinth: stopping because of ${err.stack ?? err}\n`)
    await service.close()
  })
  stopWithParent(close)
  for (const name of config.production ? guessableSecrets(config) : []) {
    process.stderr.write(`plinth: ${name} can be guessed: take random text, such as openssl rand -hex 32 prints\n`)
  }
  for (const name of config.unknown) process.stderr.write(`plinth: ${name} is not a setting of this release\n`)
  if (!config.production) process.stdout.write(await greeting(service, config, definition))
}

/** npm does not pass SIGTERM on: a service that `npm start` started ends when its parent does. */
function stopWithParent(close: () => void): void {
  if (process.env.npm_lifecycle_event === undefined) return
  const parent = process.ppid
  const watch = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(watch)
    close()
  }, parentLookMs)
  watch.unref()
}

async function greeting(service: Service, config: Config, { scopes }: Definition): Promise<string> {
  const { baseUrl, authorityFile, dataDir } = service
  const lines = [
    '',
    `  Plinth serves ${baseUrl}`,
    `  Data          ${dataDir}`,
    ...(authorityFile
      ? [`  Trust         ${authorityFile}`, `                curl --cacert ${authorityFile} ${baseUrl}/livez`]
      : []),
    ...(await firstClient(service, config, scopes)),
    ...(await firstAdmin(service, config)),
    '',
    '',
  ]
  return lines.join('\n')
}

/** And an administrator, so that somebody can log in. */
async function firstAdmin({ db, sealer }: Service, { bootstrapClientId }: Config): Promise<string[]> {
  if (bootstrapClientId !== null) return []
  const record = auditRecorder(sealer, Date.now)
  const admin = await createFirstAdmin(db, passwords(randomBytes), Date.now, randomBytes, record)
  return admin ? [`  Administrator ${admin.email}`, `  Password      ${admin.password}   (shown this once)`] : []
}

/** In development the first run makes a client, so that the first request can be sent at once. */
async function firstClient({ db, sealer }: Service, { bootstrapClientId }: Config, scopes: Scopes): Promise<string[]> {
  const others = (await listClients(db)).filter(({ id, revokedAt }) => revokedAt === null && id !== docsClientId)
  if (bootstrapClientId !== null || others.length > 0) return []
  const wanted = { name: 'Development client', scopes: Object.keys(scopes), grants: ['client_credentials'] }
  const { client, secret } = await createClient(db, sealer, scopes, wanted)
  return ['', `  Client        ${client.id}`, `  Secret        ${secret}   (shown this once)`]
}
