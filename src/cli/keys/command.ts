import { randomBytes } from 'node:crypto'
import { Command, InvalidArgumentError } from 'commander'
import { operator } from '../../audit/chain.ts'
import type { Config } from '../../config/config.ts'
import { Problem } from '../../http/problems/problem.ts'
import { type ApiKeyStore, createApiKey, listApiKeys, revokeApiKey } from '../../oauth/api-keys/api-keys.ts'
import { rotateOnRequest } from '../../oauth/keys/rotation.ts'
import { signingKeys } from '../../oauth/keys/signing-keys.ts'
import type { ApiKey } from '../../storage/tables/administration.ts'
import type { Stores } from '../../stores.ts'
import { print, printJson, withStores } from '../print.ts'

const about = `Manage API keys, and rotate signing keys and the master key

An API key (create, list, revoke) determines whose limits a request counts against. It grants no access: requests still need
an access token. Signing keys (rotate) sign access tokens and ID tokens; cookie keys are rotated with them.
The master key (rotate-master) encrypts the keys and secrets in the database.`

/**
 * Creates `plinth keys …`. It manages API keys, as the routes under /api/keys do, and rotates signing keys and the
 * master key.
 */
export function keysCommand(configuration: () => Config): Command {
  const using = withStores(configuration)
  const keys = new Command('keys').description(about)
  keys
    .command('create')
    .description('Create an API key and print it once')
    .requiredOption('--name <name>', 'its display name')
    .option('--rate <calls/seconds>', 'its own rate limit, such as 600/60')
    .option('--quota <requests>', 'its own monthly request quota', wholeNumber)
    .option('--expires <instant>', 'when it expires, such as 2030-01-31T00:00:00Z')
    .action((options) => using((stores) => create(stores, options)))
  keys
    .command('list')
    .description('List the API keys')
    .option('--json', 'print JSON')
    .action((options) => using((stores) => list(stores, options)))
  keys
    .command('revoke')
    .description('Revoke an API key; it stops counting within 30 seconds')
    .argument('<id>')
    .action((id) => using((stores) => revoke(stores, id)))
  keys
    .command('rotate')
    .description('Publish a new signing key and sign with it from tomorrow; the service does so itself every 90 days')
    .option('--now', 'sign with it at once: clients that cache the JWKS reject its tokens until they fetch it again')
    .option('--discard', 'also reject every token signed so far, for a leaked key; implies --now')
    .action((options) => using((stores) => rotate(stores, configuration().oauth, options)))
  keys
    .command('rotate-master')
    .description(
      'Replace the master key, and encrypt every secret again, also while services run; continues if interrupted',
    )
    .option('--offline', 'do not wait for running processes; refused while a node uses the database')
    .option('--start-over', 'rotate to another key, if the new key of an unfinished rotation is lost')
    .action(async (options) => (await import('./rotate-master.ts')).rotateMaster(configuration(), options))
  return keys
}

function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,9}$/.test(text)) throw new InvalidArgumentError('It must be a whole number, 1 or more.')
  return Number(text)
}

const by = ({ db, sealer }: Stores): ApiKeyStore => ({
  ...{ db, sealer, now: Date.now, random: randomBytes },
  actor: operator,
})

async function create(stores: Stores, options: { name: string; rate?: string; quota?: number; expires?: string }) {
  const { name, rate = null, quota = null, expires = null } = options
  const { apiKey, key } = await createApiKey(by(stores), { name, rate, quota, expiresAt: expires })
  print(`id       ${apiKey.id}\napi_key  ${key}`)
}

async function list({ db }: Stores, { json }: { json?: boolean }): Promise<void> {
  const keys = (await listApiKeys(db)).map(({ keyHash: _, revision: __, sharesSecond: ___, ...key }) => key)
  if (json) return printJson(keys)
  for (const key of keys) print(line(key))
}

function line(key: Omit<ApiKey, 'keyHash' | 'revision' | 'sharesSecond'>): string {
  const { id, hint, name, rate, quota, lastUsedAt, expiresAt } = key
  const limits = [rate && `rate ${rate}`, quota && `quota ${quota}`, expiresAt && `until ${expiresAt}`]
  const properties = [`last used ${lastUsedAt ?? 'never'}`, ...limits.filter(Boolean)]
  return `${id}  ${hint}…  ${name}\n    ${properties.join(', ')}`
}

async function revoke(stores: Stores, id: string): Promise<void> {
  await revokeApiKey(by(stores), id).catch((error) => {
    const missing = error instanceof Problem && error.code === 'RESOURCE_NOT_FOUND'
    throw missing ? new Error(`There is no active API key ${id}`, { cause: error }) : error
  })
  print(`Revoked ${id}`)
}

async function rotate(
  { db, sealer }: Stores,
  { signingAlgorithm: algorithm }: Config['oauth'],
  { now = false, discard = false },
): Promise<void> {
  const sources = { db, sealer, algorithm, now: Date.now }
  await signingKeys(sources)
  const options = { immediately: now || discard, discard }
  const { published, retired } = await rotateOnRequest({ ...sources, actor: operator }, options)
  print(
    published
      ? `Published ${published.kid}, signs from ${published.activeFrom}`
      : 'A new key is already published and not active yet',
  )
  for (const kid of retired) print(`Retired ${kid}`)
}
