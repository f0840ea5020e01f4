import { Type } from 'typebox'
import { collection } from './collection.ts'
import { Price } from './fields.ts'
import { Line } from './text.ts'

export const products = collection({
  path: '/products',
  noun: 'product',
  publicRead: true,
  body: Type.Object({ name: Line(1, 200, { examples: ['Desk lamp'] }), price: Price }),
  filters: ['name'],
  ranges: ['price'],
  search: ['name'],
  sorts: ['name', 'price'],
})
