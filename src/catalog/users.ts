import { type TObject, Type } from 'typebox'
import { Line } from '../http/text-rules.ts'
import { collection } from '../resources/collection.ts'
import { Email, Name } from '../resources/field-types.ts'
import type { ResourceOptions } from '../resources/resource-options.ts'

const ada = {
  name: 'Ada Lovelace',
  email: 'ada@example.com',
  address: '12 St James’s Square, London',
  phone: '+44 20 7946 0958',
}

const typed = <B extends TObject>(options: ResourceOptions<B>) => options

/** The declaration of users, without the fields and roles that a service adds. */
export const userOptions = typed({
  path: '/users',
  noun: 'user',
  body: Type.Object(
    {
      name: Name,
      email: Email,
      address: Type.Optional(Line(0, 500)),
      phone: Type.Optional(Type.String({ maxLength: 32, pattern: '^[+0-9 ()-]*$' })),
    },
    { examples: [ada] },
  ),
  filters: ['name', 'email'],
  search: ['name'],
  sorts: ['name', 'email'],
  unique: ['email'],
  listed: ['id', 'name', 'email'],
  scopes: { 'users:read:full': 'See users with address and phone' },
  hides: {
    fields: ['address', 'phone'],
    // When a client acts on its own behalf, the subject is the client id, which could equal the id of an unrelated user.
    unless: ({ clientId, subject, scopes }, id) =>
      scopes.has('users:read:full') || (subject === String(id) && subject !== clientId),
  },
})

export const users = collection(userOptions)
