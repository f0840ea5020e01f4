import { Command } from 'commander'
import { createClient, listClients, revokeClient } from '../auth/clients.ts'
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
    .description('Register a machine client and print its id and secret once')
    .requiredOption('--name <name>', 'what people call it')
    .option('--id <id>', 'its client_id (made up without it)')
    .option('--scope <scopes>', 'space-separated scopes (all that guard the API without it)')
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
}

async function create({ db, sealer }: Stores, known: Scopes, options: Wanted): Promise<void> {
  const scopes = options.scope?.split(/[\s,]+/).filter((scope) => scope !== '') ?? apiScopes(known)
  const wanted = { ...(options.id && { id: options.id }), name: options.name, scopes, grants: ['client_credentials'] }
  const { client, secret } = await createClient(db, sealer, known, wanted)
  print(`client_id      ${client.id}\nclient_secret  ${secret}`)
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
