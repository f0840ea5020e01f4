import { Type } from 'typebox'
import { collection } from './collection.ts'
import { Line } from './text.ts'

export const products = collection({
  path: '/products',
  table: 'products',
  noun: 'product',
  operations: ['list', 'create', 'read', 'replace', 'patch', 'remove'],
  publicRead: true,
  body: Type.Object({
    name: Line(1, 200, { examples: ['Desk lamp'] }),
    price: Type.Refine(
      Type.Number({ minimum: 0, maximum: 999_999_999.99, description: 'Two decimals at most', examples: [24.5] }),
      // Not `multipleOf: 0.01`, of which no binary fraction is an exact multiple.
      (price) => Number(price.toFixed(2)) === price,
      () => 'must have two decimals at most',
    ),
  }),
  filters: ['name'],
  ranges: ['price'],
  search: ['name'],
  sorts: ['id', 'name', 'price', 'createdAt', 'updatedAt'],
})
