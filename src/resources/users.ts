import { Type } from 'typebox'
import { collection } from './collection.ts'
import { Email } from './fields.ts'
import { Line } from './text.ts'

export const users = collection({
  path: '/users',
  noun: 'user',
  body: Type.Object({
    name: Line(1, 200, { examples: ['Ada Lovelace'] }),
    email: Email,
    address: Type.Optional(Line(0, 500, { examples: ['12 St James’s Square, London'] })),
    phone: Type.Optional(Type.String({ maxLength: 32, pattern: '^[+0-9 ()-]*$', examples: ['+44 20 7946 0958'] })),
  }),
  filters: ['name', 'email'],
  search: ['name'],
  sorts: ['name', 'email'],
  unique: ['email'],
  listed: ['id', 'name', 'email'],
  scopes: { 'users:read:full': 'See users with address and phone' },
  hides: {
    fields: ['address', 'phone'],
    // A client's own subject is its id, which could look like a number.
    unless: ({ clientId, subject, scopes }, id) =>
      scopes.has('users:read:full') || (subject === String(id) && subject !== clientId),
  },
})
