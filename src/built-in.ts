import { service } from './definition.ts'
import { books } from './resources/books.ts'
import { products } from './resources/products.ts'
import { inventory } from './resources/reports/kinds/inventory.ts'
import { users } from './resources/users.ts'

/** What is served when no other definition is given: declared as any other service is. */
export const builtIn = service({ resources: [users, products, books], reports: [inventory] })
