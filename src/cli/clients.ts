import { Command } from 'commander'
import { operator } from '../audit/chain.ts'
import type { Config } from '../config/config.ts'
import type { Definition } from '../definition/service.ts'
import { Problem } from '../http/problems/problem.ts'
import type { RegisteredClient } from '../oauth/clients/client-rows.ts'
import { createClient, findClient, listClients } from '../oauth/clients/clients.ts'
import { revokeClient, rotateClientSecret, updateClient } from '../oauth/clients/update.ts'
import { type ClientSettings, grantTypes, type NewClient } from '../oauth/clients/validate.ts'
import type { Scopes } from '../oauth/tokens/scopes.ts'
import type { Stores } from '../stores.ts'
import { parseList, parsePairs, print, printJson, withStores } from './print.ts'

interface SettingsOptions {
  name?: string
  scope?: string
  grant?: string[]
  redirectUri?: string[]
  postLogoutUri?: string[]
  firstParty?: boolean
  trusted?: boolean
  introspectsOthers?: boolean
  rate?: string | false
  quota?: string | false
  label?: string[]
  removeLabel?: string[]
}

/**
 * Creates `plinth clients …`, the counterpart of /api/clients; changes take effect without a restart of the service.
 */
export function clientsCommand(configuration: () => Config, definition: () => Promise<Definition>): Command {
  const using = withStores(configuration)
  const withScopes = async (work: (stores: Stores, known: Scopes) => Promise<void>) => {
    const { scopes } = await definition()
    await using((stores) => work(stores, scopes))
  }
  const clients = new Command('clients')
  withSettings(clients.command('create').description('Register a client and print its id and secret once'))
    .option('--id <id>', 'its client_id (default: a random one)')
    .option('--public', 'a public client, without a secret: for apps that cannot keep one')
    .action(async (options) => {
      const { scopes } = await definition()
      const settings = newClientOf(options, scopes)
      await using((stores) => create(stores, scopes, settings))
    })
  clients
    .command('list')
    .description('List all clients')
    .option('--json', 'print JSON')
    .action((options) => using((stores) => list(stores, options)))
  clients
    .command('show')
    .description('Show the settings of a client as JSON')
    .argument('<id>')
    .action((id) => using((stores) => show(stores, id)))
  withResets(withSettings(clients.command('update').description('Change the given settings of a client')))
    .argument('<id>')
    .action((id, options) => withScopes((stores, known) => update(stores, known, id, options)))
  clients
    .command('rotate-secret')
    .description('Replace the secret of a client and print the new one once; the old one stops working at once')
    .argument('<id>')
    .action((id) => using((stores) => rotate(stores, id)))
  clients
    .command('revoke')
    .description('Revoke a client: it gets no more tokens, and its tokens become invalid within 30 seconds')
    .argument('<id>')
    .action((id) => using((stores) => revoke(stores, id)))
  return clients
}

/** Adds the options for client settings. */
const withSettings = (command: Command) =>
  command
    .option('--name <name>', 'its display name')
    .option('--scope <scopes>', 'its scopes, separated by spaces or commas')
    .option('--redirect-uri <uri...>', 'where users return after login')
    .option('--post-logout-uri <uri...>', 'where users return after logout')
    .option('--grant <grants...>', `any of ${grantTypes.join(', ')} (default: those that fit the other options)`)
    .option('--first-party', 'your own client: users are not asked for consent')
    .option('--trusted', 'may use the password grant (deprecated)')
    .option('--introspects-others', 'may introspect the tokens of other clients')
    .option('--rate <rate>', 'requests/seconds of each of its accounts, such as 600/60')
    .option('--quota <requests>', 'requests of each of its accounts per calendar month')
    .option('--label <labels...>', 'what claims functions know about it, such as tenant=north')

/** Adds the options that reset client settings to their defaults. */
const withResets = (command: Command) =>
  command
    .option('--no-first-party', 'ask users for consent again')
    .option('--no-trusted', 'no longer allow the password grant')
    .option('--no-introspects-others', 'may introspect its own tokens only')
    .option('--no-rate', 'the default rate again')
    .option('--no-quota', 'the default quota again')
    .option('--remove-label <keys...>', 'remove labels')

function settingsOf(options: SettingsOptions): Partial<Omit<ClientSettings, 'labels'>> {
  const { name, scope, grant, redirectUri, postLogoutUri, firstParty, trusted, introspectsOthers, rate, quota } =
    options
  return {
    ...(name !== undefined && { name }),
    ...(scope !== undefined && { scopes: parseList(scope) }),
    ...(grant && { grants: grant.flatMap(parseList) }),
    ...(redirectUri && { redirectUris: redirectUri }),
    ...(postLogoutUri && { postLogoutRedirectUris: postLogoutUri }),
    ...(firstParty !== undefined && { firstParty }),
    ...(trusted !== undefined && { trusted }),
    ...(introspectsOthers !== undefined && { introspectsOthers }),
    ...(rate !== undefined && { rate: rate || null }),
    ...(quota !== undefined && { quota: quota === false ? null : Number(quota) }),
  }
}

type CreateOptions = SettingsOptions & { id?: string; public?: boolean }

/**
 * Returns the default grants: those that log users in if the client has a redirect URI or is trusted; otherwise
 * `client_credentials`.
 */
function defaultGrants({ redirectUri, trusted }: SettingsOptions): string[] {
  const grants = [...(redirectUri ? ['authorization_code'] : []), ...(trusted ? ['password'] : [])]
  return grants.length > 0 ? [...grants, 'refresh_token'] : ['client_credentials']
}

/** Thrown for a new client without scopes. There are no default scopes, so the error lists the available scopes. */
class MissingScopes extends Error {
  override name = 'MissingScopes'
  readonly exitCode = 2

  constructor(known: Scopes) {
    const lines = Object.entries(known).map(([scope, allows]) => `    ${scope}  ${allows}`)
    super(['Pass --scope "<scopes>". The scopes of this service are:', ...lines].join('\n'))
  }
}

/** Builds a client from the options. Throws if the name or the scopes are missing. */
function newClientOf({ id, public: isPublic, ...options }: CreateOptions, known: Scopes): NewClient {
  const { name, scopes = [], grants = defaultGrants(options), ...settings } = settingsOf(options)
  const labels = parsePairs('--label', options.label ?? [])
  if (name === undefined) throw new Error('Pass a name for the client: --name <name>')
  if (scopes.length === 0) throw new MissingScopes(known)
  return { ...settings, name, scopes, grants, labels, ...(id && { id }), ...(isPublic && { secret: null }) }
}

async function create({ db, sealer }: Stores, known: Scopes, settings: NewClient): Promise<void> {
  const { client, secret } = await createClient(db, sealer, known, settings, { actor: operator })
  print(`client_id      ${client.id}\nclient_secret  ${secret ?? '(none: a public client)'}`)
}

async function list({ db }: Stores, { json }: { json?: boolean }): Promise<void> {
  const clients = (await listClients(db)).map(clientView)
  if (json) return printJson(clients)
  for (const { id, name, scopes, createdAt, revokedAt } of clients) {
    print(`${id}  ${revokedAt ? `revoked ${revokedAt}` : 'active'}  ${createdAt}  ${name}\n    ${scopes.join(' ')}`)
  }
}

const clientView = ({ secretHash, revision: _, sharesSecond: __, ...client }: RegisteredClient) => ({
  ...client,
  type: secretHash === null ? 'public' : 'confidential',
})

async function show({ db }: Stores, id: string): Promise<void> {
  const client = await findClient(db, id)
  if (client === undefined) throw noClient(id)
  printJson(clientView(client))
}

async function update({ db, sealer }: Stores, known: Scopes, id: string, options: SettingsOptions): Promise<void> {
  const removed = (options.removeLabel ?? []).map((key) => [key, null])
  const labels = { ...Object.fromEntries(removed), ...parsePairs('--label', options.label ?? []) }
  const changes = { ...settingsOf(options), labels }
  await updateClient({ db, sealer, actor: operator }, known, id, changes).catch(explain(id))
  print(`Changed ${id}`)
}

async function rotate({ db, sealer }: Stores, id: string): Promise<void> {
  const { secret } = await rotateClientSecret({ db, sealer, actor: operator }, id).catch(explain(id))
  print(`client_secret  ${secret}`)
}

async function revoke({ db, sealer }: Stores, id: string): Promise<void> {
  await revokeClient({ db, sealer, actor: operator }, id).catch(explain(id))
  print(`Revoked ${id}`)
}

const noClient = (id: string, cause?: unknown) => new Error(`There is no active client ${id}`, { cause })

const explain =
  (id: string) =>
  (error: unknown): never => {
    throw error instanceof Problem && error.code === 'RESOURCE_NOT_FOUND' ? noClient(id, error) : error
  }
