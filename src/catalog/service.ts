import { service } from '../definition/service.ts'
import { books } from './books.ts'
import { inventory } from './inventory.ts'
import { products } from './products.ts'
import { users } from './users.ts'

const resources = [users, products, books]

/** The default service, which runs if no definition is given; declared like any other service. */
export const builtIn = service({
  title: 'Plinth',
  description:
    'Users, products and books, reports generated in the background, signed webhooks, and OAuth 2.0 access tokens.',
  license: { name: 'MIT', identifier: 'MIT' },
  resources,
  // v1 ignores unknown parameters, because its clients may send some, for example to bypass caches.
  versions: { v1: { resources, unknownParameters: 'ignore' }, v2: resources },
  reports: [inventory],
})
