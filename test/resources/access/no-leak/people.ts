/** A caller: a user of the application `cli_app`, or a machine client. */
export interface Person {
  name: string
  client: string
  /** The id of the user; undefined for a machine client. */
  user?: number
  role?: 'auditor'
  isAdmin: boolean
  /** The tenant claim; undefined if the caller has none. */
  tenant: string | undefined
  scopes: string[]
}

/** Returns the caller's id as `createdBy` contains it. */
export const idOf = ({ user, client }: Person) => (user === undefined ? `client:${client}` : `user:${user}`)

const hidden: Record<string, (scope: string) => boolean> = {
  /** The caller `half` lacks the scope for reading one collection and the scope for writing another. */
  half: (scope) => scope === 'bees:read' || scope === 'cats:write',
}

/** Returns the callers: users with ids from 1, and machine clients. `scopes` lists the scopes of the service. */
export function drawPeople(scopes: readonly string[]): Person[] {
  const usual = scopes.filter((scope) => scope !== 'admin' && !scope.startsWith('users:'))
  const user = (name: string, id: number, tenant: string | undefined, more: Partial<Person> = {}): Person => ({
    ...{ name, client: 'cli_app', user: id, isAdmin: false, tenant, scopes: usual, ...more },
  })
  const machine = (name: string, tenant: string | undefined, more: Partial<Person> = {}): Person => ({
    ...{ name, client: `crm_${name}`, isAdmin: false, tenant, ...more },
    scopes: usual.filter((scope) => !hidden[name]?.(scope)).concat(more.scopes ?? []),
  })
  return [
    user('owner', 1, 'north'),
    user('colleague', 2, 'north'),
    user('stranger', 3, 'South'),
    user('auditor', 4, undefined, { role: 'auditor' }),
    user('nobody', 5, undefined),
    user('admin', 6, 'North', { isAdmin: true, scopes: [...usual, 'admin'] }),
    machine('north', 'north'),
    machine('south', 'south'),
    machine('bare', undefined),
    machine('half', 'north'),
    machine('root', undefined, { scopes: ['admin'] }),
  ]
}
