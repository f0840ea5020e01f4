import { Type } from 'typebox'
import { Line } from '../http/text-rules.ts'
import { collection } from '../resources/collection.ts'
import { Name, Title } from '../resources/field-types.ts'

export const books = collection({
  path: '/books',
  noun: 'book',
  publicRead: true,
  body: Type.Object(
    { title: Title, author: Name, genre: Type.Optional(Line(1, 50)) },
    { examples: [{ title: 'Notes on the Analytical Engine', author: 'Ada Lovelace', genre: 'mathematics' }] },
  ),
  filters: ['genre', 'author'],
  search: ['title'],
  sorts: ['title', 'author', 'genre'],
  links: ({ id, author }) => ({
    self: { href: `/books/${id}` },
    update: { href: `/books/${id}`, method: 'PUT' },
    delete: { href: `/books/${id}`, method: 'DELETE' },
    author: { href: `/books?author=${encodeURIComponent(String(author))}` },
  }),
  keepDeleted: '30 days',
})
