import { Command, InvalidArgumentError } from 'commander'
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
import { listed, print, printJson, withStores } from './print.ts'

interface SettingsOptions {
  name?: string
  scope?: string
  grant?: string[]
  redirectUri?: string[]
  postLogoutUri?: string[]
  firstParty?: boolean
  trusted?: boolean
  introspectsOthers?: boolean
}

/** `plinth clients …`: the counterpart of /api/clients; a running service sees changes at once. */
export function clientsCommand(configuration: () => Config, definition: () => Promise<Definition>): Command {
  const using = withStores(configuration)
  const knowing = async (work: (stores: Stores, known: Scopes) => Promise<void>) => {
    const { scopes } = await definition()
    await using((stores) => work(stores, scopes))
  }
  const clients = new Command('clients')
  settable(clients.command('create').description('Register a client and print its id and secret once'))
    .option('--id <id>', 'its client_id (made up without it)')
    .option('--public', 'without a secret: for apps that cannot keep one')
    .action(async (options) => {
      const { scopes } = await definition()
      const wanted = newClientOf(options, scopes)
      await using((stores) => create(stores, scopes, wanted))
    })
  clients
    .command('list')
    .description('List all clients')
    .option('--json', 'as JSON')
    .action((options) => using((stores) => list(stores, options)))
  clients
    .command('show')
    .description('Show the settings of a client as JSON')
    .argument('<id>')
    .action((id) => using((stores) => show(stores, id)))
  settable(clients.command('update').description('Change what is given; the rest stays'))
    .argument('<id>')
    .option('--no-first-party', 'no longer one of your own')
    .option('--no-trusted', 'no longer trusted with passwords')
    .option('--no-introspects-others', 'sees its own tokens only')
    .action((id, options) => knowing((stores, known) => update(stores, known, id, options)))
  clients
    .command('rotate-secret')
    .description('Give a client a new secret and print it once; the old one ends at once')
    .argument('<id>')
    .action((id) => using((stores) => rotate(stores, id)))
  clients
    .command('revoke')
    .description('Revoke a client: it gets no tokens, and its tokens are refused within 30 seconds')
    .argument('<id>')
    .action((id) => using((stores) => revoke(stores, id)))
  return clients
}

/** Adds the options for client settings. */
const settable = (command: Command) =>
  command
    .option('--name <name>', 'what people call it')
    .option('--scope <scopes>', 'scopes, separated by spaces or commas; a new client has none but these')
    .option('--redirect-uri <uri...>', 'where people are sent back to after they logged in')
    .option('--post-logout-uri <uri...>', 'where people are sent to after they logged out')
    .option('--grant <grants...>', `of ${grantTypes.join(', ')} (a new client: those that fit the rest)`)
    .option('--first-party', 'is your own: people are not asked for consent')
    .option('--trusted', 'may be told passwords (deprecated)')
    .option('--introspects-others', 'may introspect the tokens of other clients')

function settingsOf(options: SettingsOptions): Partial<ClientSettings> {
  const { name, scope, grant, redirectUri, postLogoutUri, firstParty, trusted, introspectsOthers } = options
  return {
    ...(name !== undefined && { name }),
    ...(scope !== undefined && { scopes: listed(scope) }),
    ...(grant && { grants: grant.flatMap(listed) }),
    ...(redirectUri && { redirectUris: redirectUri }),
    ...(postLogoutUri && { postLogoutRedirectUris: postLogoutUri }),
    ...(firstParty !== undefined && { firstParty }),
    ...(trusted !== undefined && { trusted }),
    ...(introspectsOthers !== undefined && { introspectsOthers }),
  }
}

type CreateOptions = SettingsOptions & { id?: string; public?: boolean }

/** Default grants: a client with a redirect URI logs users in; one without acts for itself. */
function usualGrants({ redirectUri, trusted }: SettingsOptions): string[] {
  const grants = [...(redirectUri ? ['authorization_code'] : []), ...(trusted ? ['password'] : [])]
  return grants.length > 0 ? [...grants, 'refresh_token'] : ['client_credentials']
}

/** Thrown for a new client without scopes: there is no default, so the error lists the choices. */
class MissingScopes extends Error {
  override name = 'MissingScopes'
  readonly exitCode = 2

  constructor(known: Scopes) {
    const lines = Object.entries(known).map(([scope, allows]) => `    ${scope}  ${allows}`)
    super(['Give the client its scopes: --scope "<scopes>". The scopes of this service are', ...lines].join('\n'))
  }
}

/** The client described by the options. Throws if the name or the scopes are missing. */
function newClientOf({ id, public: isPublic, ...options }: CreateOptions, known: Scopes): NewClient {
  const { name, scopes = [], grants = usualGrants(options), ...settings } = settingsOf(options)
  if (name === undefined) throw new Error('Give the client a name: --name <name>')
  if (scopes.length === 0) throw new MissingScopes(known)
  return { ...settings, name, scopes, grants, ...(id && { id }), ...(isPublic && { secret: null }) }
}

async function create({ db, sealer }: Stores, known: Scopes, wanted: NewClient): Promise<void> {
  const { client, secret } = await createClient(db, sealer, known, wanted, { actor: operator })
  print(`client_id      ${client.id}\nclient_secret  ${secret ?? '(none: a public client)'}`)
}

async function list({ db }: Stores, { json }: { json?: boolean }): Promise<void> {
  const clients = (await listClients(db)).map(shown)
  if (json) return printJson(clients)
  for (const { id, name, scopes, createdAt, revokedAt } of clients) {
    print(`${id}  ${revokedAt ? `revoked ${revokedAt}` : 'active'}  ${createdAt}  ${name}\n    ${scopes.join(' ')}`)
  }
}

const shown = ({ secretHash, revision: _, sharesSecond: __, ...client }: RegisteredClient) => ({
  ...client,
  type: secretHash === null ? 'public' : 'confidential',
})

async function show({ db }: Stores, id: string): Promise<void> {
  const client = await findClient(db, id)
  if (client === undefined) throw noClient(id)
  printJson(shown(client))
}

async function update({ db, sealer }: Stores, known: Scopes, id: string, options: SettingsOptions): Promise<void> {
  await updateClient({ db, sealer, actor: operator }, known, id, settingsOf(options)).catch(explain(id))
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

/** Adds the options of commands that are clients of a service. */
export const asClient = (command: Command): Command =>
  command
    .option('--base-url <url>', 'where the service is (without it, that of these settings)', address)
    .option('--client-id <id>', 'the client to be; PLINTH_CLIENT_ID without it')
    .option('--client-secret <secret>', 'its secret; better in PLINTH_CLIENT_SECRET, where others do not see it')

function address(text: string): string {
  const url = URL.parse(text)
  if (url && /^https?:$/.test(url.protocol)) return text
  throw new InvalidArgumentError('It must be a URL such as https://api.example.com.')
}
