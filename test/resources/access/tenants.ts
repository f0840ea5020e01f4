import { addUser, openAccount, type Role } from '../../../src/oauth/users/accounts.ts'
import { Day, Decimal, plinth, Title, Type } from '../../../src/plinth.ts'
import type { Database } from '../../../src/storage/database.ts'
import { token } from '../../support/app.ts'

const { collection, service } = plinth({
  claims: ({ user, client }) => ({ tenant: user?.email.split('@')[1] ?? /^crm_(\w+)$/.exec(client.id)?.[1] }),
})

/** Members of a tenant can read and write its notes. Auditors, who have the role `admin`, can do so in all tenants. */
const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({
    tenant: Type.String({ maxLength: 40 }),
    text: Title,
    pin: Type.Optional(Type.String()),
    size: Type.Optional(Type.Integer()),
    isOpen: Type.Optional(Type.Boolean()),
    amount: Type.Optional(Decimal(18, 2)),
    due: Type.Optional(Day),
  }),
  writeOnly: ['pin'],
  filters: ['text', 'tenant'],
  access: (caller) => caller.is('admin') || { tenant: caller.claims.tenant },
})

/** Rows that only callers with the scope `admin` can read. */
const secrets = collection({
  path: '/secrets',
  noun: 'secret',
  body: Type.Object({ text: Title }),
  access: ({ may }) => may('admin'),
})

export const definition = service({ resources: [notes, secrets] })
export const scopes = Object.keys(definition.scopes)
  .filter((scope) => scope !== 'admin')
  .join(' ')

/** All callers. `admin` is a client with the scope `admin`, which gives no access to notes. */
export const everyone = ['owner', 'colleague', 'stranger', 'auditor', 'machine', 'admin', 'nobody'] as const
export type Who = (typeof everyone)[number]
/** Callers who may read the notes of the tenant `north`. */
export const north: readonly Who[] = ['owner', 'colleague', 'auditor', 'machine']

/** Adds the users. Returns the token of each caller and the ids of the users. */
export async function peopleOn(db: Database, now: number) {
  const ids: Partial<Record<Who, number>> = {}
  const userToken = (who: Who, tenant: string, role: Role = 'user') =>
    db.write(async (tx) => {
      const id = await addUser(tx, who, `${who}@${tenant}`, now)
      await openAccount(tx, id, role, now)
      ids[who] = id
      return token(scopes, 'cli_app', String(id))
    })
  const tokens: Record<Who, string> = {
    owner: await userToken('owner', 'north'),
    colleague: await userToken('colleague', 'north'),
    stranger: await userToken('stranger', 'south'),
    auditor: await userToken('auditor', 'central', 'admin'),
    machine: token(scopes, 'crm_north'),
    admin: token(`${scopes} admin`, 'cli_admin'),
    nobody: token(scopes, 'cli_nobody'),
  }
  /** Changes a user's tenant, which takes effect within five seconds. */
  const move = (who: Who, tenant: string) =>
    db.write((tx) =>
      tx
        .updateTable('users')
        .set({ email: `${who}@${tenant}`, emailKey: `${who}@${tenant}` })
        .where('id', '=', ids[who] as number)
        .execute(),
    )
  return { tokens, ids: ids as Record<Who, number>, move }
}
