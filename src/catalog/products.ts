import { Type } from 'typebox'
import { collection } from '../resources/collection.ts'
import { Name, Price } from '../resources/field-types.ts'

export const products = collection({
  path: '/products',
  noun: 'product',
  publicRead: true,
  body: Type.Object({ name: Name, price: Price }, { examples: [{ name: 'Desk lamp', price: 24.5 }] }),
  filters: ['name'],
  ranges: ['price'],
  search: ['name'],
  sorts: ['name', 'price'],
  keepDeleted: '30 days',
})
