import { Type } from 'typebox'
import Format from 'typebox/format'
import { collection } from './collection.ts'
import { Line } from './text.ts'

/** The HTML standard's pattern of e-mail addresses, which is what `format: email` means here. */
const email =
  /^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$/
Format.Set('email', (value) => email.test(value))

export const users = collection({
  path: '/users',
  table: 'users',
  noun: 'user',
  operations: ['list', 'create', 'read', 'replace', 'patch', 'remove'],
  body: Type.Object({
    name: Line(1, 200, { examples: ['Ada Lovelace'] }),
    email: Type.String({ format: 'email', maxLength: 254, examples: ['ada@example.com'] }),
    address: Type.Optional(Line(0, 500, { examples: ['12 St James’s Square, London'] })),
    phone: Type.Optional(Type.String({ maxLength: 32, pattern: '^[+0-9 ()-]*$', examples: ['+44 20 7946 0958'] })),
  }),
  filters: ['name', 'email'],
  search: ['name'],
  folded: ['email'],
  sorts: ['id', 'name', 'email', 'createdAt', 'updatedAt'],
  unique: 'email',
  listed: ['id', 'name', 'email'],
  hides: {
    fields: ['address', 'phone'],
    // A client's own subject is its id, which could look like a number.
    unless: ({ clientId, subject, scopes }, id) =>
      scopes.has('users:read:full') || (subject === String(id) && subject !== clientId),
  },
})
