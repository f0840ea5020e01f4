import { randomBytes } from 'node:crypto'
import { isAbsolute, relative, resolve } from 'node:path'
import { auditRecorder } from '../audit/chain.ts'
import type { Config } from '../config/config.ts'
import type { Service } from '../lifecycle.ts'
import { type Output, terminalOf } from '../logging/terminal.ts'
import { isBuiltInClient } from '../oauth/clients/built-in-clients.ts'
import { createClient, listClients } from '../oauth/clients/clients.ts'
import type { Scopes } from '../oauth/tokens/scopes.ts'
import { createFirstAdmin } from '../oauth/users/accounts.ts'
import { passwords } from '../oauth/users/passwords.ts'
import type { LoadedDefinition } from './load-definition.ts'
import { warnOfModuleState } from './module-state.ts'

export interface Started {
  service: Service
  config: Config
  loaded: LoadedDefinition
  version: string
}

type Row = [label: string, text: string]

/**
 * Returns the startup message for development: the service's address and other facts, and the next step. On the first
 * run, also creates a client and an administrator, and includes their credentials.
 */
export async function greeting(started: Started, out: Output, env: NodeJS.ProcessEnv): Promise<string> {
  const { service, config, loaded } = started
  const { baseUrl, dataDir, authorityFile } = service
  const { paint } = terminalOf(out, env)
  const client = await firstClient(service, config, loaded.definition.scopes)
  const rows: Row[] = [
    ['Plinth serves', baseUrl],
    ...transport(config),
    ['Docs', `${baseUrl}/docs`],
    ...(config.service.console === 'on' ? [['Console', `${baseUrl}/console`] satisfies Row] : []),
    ['Definition', loaded.file ? resolve(loaded.file) : 'built in: users, products and books'],
    ['Data', dataDir],
    ...(authorityFile ? [['Trust', authorityFile] satisfies Row] : []),
    ...clientRows(client),
    ...(await firstAdmin(service, config)),
    ['Next', nextStep(service, client)],
  ]
  const lines = rows.map(([label, text]) => `  ${paint('bold', label)}${' '.repeat(14 - label.length)}${text}`)
  return `\n${lines.join('\n')}\n\n`
}

/** Returns a line about the transport, unless it is the default, HTTPS. */
function transport({ http: { tls, host, port, trustedProxies }, plain }: Config): Row[] {
  if (plain) return [['Transport', 'plain HTTP, for this machine only']]
  return tls === 'on' ? [] : [['Transport', `plain HTTP at ${host}:${port}, behind ${trustedProxies.join(', ')}`]]
}

/** Logs that the service has started, and warns of module-level variables in its definition. */
export async function logStart({ service, config, loaded, version }: Started): Promise<void> {
  const { db, log, baseUrl } = service
  const { host, port } = config.http
  const { roles } = config.service
  const next = (await hasClient(service)) ? {} : { next: `register a client: ${createCommand}` }
  const at = { address: baseUrl, listening: `${host}:${port}`, engine: db.engine.name }
  const definition = loaded.file ? resolve(loaded.file) : 'built in'
  const { tables } = loaded.definition
  const resources = tables.map(({ name }) => name)
  log.info({ version, node: process.version, ...at, roles, definition, resources, ...next }, 'service started')
  warnOfModuleState(loaded.imported)
}

const createCommand = 'plinth clients create --name NAME --scope SCOPES'

/** Returns instructions: with a new client, for getting a first token; otherwise, for registering a client. */
function nextStep({ baseUrl, authorityFile }: Service, client: FirstClient | null): string {
  if (client === null) return `register clients: npx ${createCommand}`
  const trust = authorityFile ? ` --cacert ${shortPath(authorityFile)}` : ''
  return `get a token\n\n  curl${trust} -u ${client.id}:${client.secret} -d grant_type=client_credentials ${baseUrl}/oauth/token`
}

/** Returns the path relative to the current folder if it is inside that folder, otherwise unchanged. */
function shortPath(path: string): string {
  const short = relative(process.cwd(), resolve(path))
  return short.startsWith('..') || isAbsolute(short) ? path : short
}

interface FirstClient {
  id: string
  secret: string | null
}

const hasClient = async ({ db }: Service) =>
  (await listClients(db)).some(({ id, revokedAt }) => revokedAt === null && !isBuiltInClient(id))

/** Creates a client in development if there is none, so that requests can be sent at once. */
async function firstClient(
  service: Service,
  { oauth: { bootstrapClientId } }: Config,
  scopes: Scopes,
): Promise<FirstClient | null> {
  if (bootstrapClientId !== null || (await hasClient(service))) return null
  const settings = { name: 'Development client', scopes: Object.keys(scopes), grants: ['client_credentials'] }
  const { client, secret } = await createClient(service.db, service.sealer, scopes, settings)
  return { id: client.id, secret }
}

const clientRows = (client: FirstClient | null): Row[] =>
  client
    ? [
        ['Client', client.id],
        ['Secret', `${client.secret}   (shown only now)`],
      ]
    : []

/** Creates an administrator in development if there are no accounts yet, so that someone can log in. */
async function firstAdmin({ db, sealer }: Service, { oauth: { bootstrapClientId } }: Config): Promise<Row[]> {
  if (bootstrapClientId !== null) return []
  const record = auditRecorder(sealer, Date.now)
  const admin = await createFirstAdmin(db, passwords(randomBytes), Date.now, randomBytes, record)
  if (admin === null) return []
  return [
    ['Administrator', admin.email],
    ['Password', `${admin.password}   (shown only now)`],
  ]
}
