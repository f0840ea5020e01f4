import { service } from './definition.ts'
import { books } from './resources/books.ts'
import { products } from './resources/products.ts'
import { inventory } from './resources/reports/kinds/inventory.ts'
import { users } from './resources/users.ts'

const resources = [users, products, books]

/** What is served when no other definition is given: declared as any other service is. */
export const builtIn = service({
  title: 'Plinth',
  description:
    'Users, products and books, reports made in the background, signed webhooks, and the tokens that open them.',
  license: { name: 'MIT', identifier: 'MIT' },
  resources,
  // Clients of the contract's paths may send parameters of their own, such as one against caches.
  versions: { v1: { resources, unknownParameters: 'ignore' }, v2: resources },
  reports: [inventory],
})
