import { Command } from 'commander'
import { createClient, listClients, revokeClient } from '../auth/clients.ts'
import { grantTypes } from '../auth/new-client.ts'
import { apiScopes, type Scopes } from '../auth/scopes.ts'
import type { Config } from '../config.ts'
import type { Definition } from '../definition.ts'
import { openStores, type Stores } from '../stores.ts'

const print = (text: string) => void process.stdout.write(`${text}\n`)

/** `plinth clients create|list|revoke`: works beside a running service, which sees the change at once. */
export function clientsCommand(configuration: () => Config, definition: () => Promise<Definition>): Command {
  const using = async (work: (stores: Stores) => Promise<void>) => {
    const stores = await openStores(configuration())
    await work(stores).finally(() => stores.db.close())
  }
  const clients = new Command('clients').description('Register, list and revoke OAuth clients')
  clients
    .command('create')
    .description('Register a client and print its id and secret once')
    .requiredOption('--name <name>', 'what people call it')
    .option('--id <id>', 'its client_id (made up without it)')
    .option('--scope <scopes>', 'space-separated scopes (all that make sense without it)')
    .option('--redirect-uri <uri...>', 'where people are sent back to after they logged in')
    .option('--post-logout-uri <uri...>', 'where people are sent to after they logged out')
    .option('--grant <grants...>', `of ${grantTypes.join(', ')} (those that fit the rest, without it)`)
    .option('--public', 'has no secret: an app on a device or in a browser')
    .option('--first-party', 'is your own: people are not asked for consent')
    .option('--trusted', 'may be told passwords (deprecated)')
    .action(async (options) => {
      const { scopes } = await definition()
      await using((stores) => create(stores, scopes, options))
    })
  clients
    .command('list')
    .description('List all clients')
    .option('--json', 'as JSON')
    .action((options) => using((stores) => list(stores, options)))
  clients
    .command('revoke')
    .description('Revoke a client: it gets no tokens, and its tokens are refused within 30 seconds')
    .argument('<id>')
    .action((id) => using((stores) => revoke(stores, id)))
  return clients
}

interface Wanted {
  name: string
  id?: string
  scope?: string
  redirectUri?: string[]
  postLogoutUri?: string[]
  grant?: string[]
  public?: boolean
  firstParty?: boolean
  trusted?: boolean
}

const words = (text: string) => text.split(/[\s,]+/).filter((word) => word !== '')

/** A client with an address logs people in; one without speaks for itself. */
function grantsOf({ grant, redirectUri, trusted }: Wanted): string[] {
  if (grant) return grant.flatMap(words)
  const login = redirectUri ? ['authorization_code'] : []
  const password = trusted ? ['password'] : []
  const grants = [...login, ...password]
  return grants.length > 0 ? [...grants, 'refresh_token'] : ['client_credentials']
}

async function create({ db, sealer }: Stores, known: Scopes, wanted: Wanted): Promise<void> {
  const { name, id, scope, redirectUri = [], postLogoutUri = [], firstParty = false, trusted = false } = wanted
  const grants = grantsOf(wanted)
  const isMachine = grants.every((grant) => grant === 'client_credentials')
  const sensible = isMachine ? apiScopes(known) : Object.keys(known)
  const scopes = scope === undefined ? sensible : words(scope)
  const { client, secret } = await createClient(db, sealer, known, {
    ...(id && { id }),
    ...(wanted.public && { secret: null }),
    ...{ name, scopes, grants, firstParty, trusted },
    redirectUris: redirectUri,
    postLogoutRedirectUris: postLogoutUri,
  })
  print(`client_id      ${client.id}\nclient_secret  ${secret ?? '(none: a public client)'}`)
}

async function list({ db }: Stores, { json }: { json?: boolean }): Promise<void> {
  const clients = (await listClients(db)).map(({ secretHash: _, ...client }) => client)
  if (json) return print(JSON.stringify(clients, null, 2))
  for (const { id, name, scopes, createdAt, revokedAt } of clients) {
    print(`${id}  ${revokedAt ? `revoked ${revokedAt}` : 'active'}  ${createdAt}  ${name}\n    ${scopes.join(' ')}`)
  }
}

async function revoke({ db }: Stores, id: string): Promise<void> {
  if (!(await revokeClient(db, id))) throw new Error(`There is no active client ${id}`)
  print(`Revoked ${id}`)
}
