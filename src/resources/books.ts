import { Type } from 'typebox'
import { collection } from './collection.ts'
import { Line } from './text.ts'

export const books = collection({
  path: '/books',
  noun: 'book',
  publicRead: true,
  body: Type.Object({
    title: Line(1, 300, { examples: ['Notes on the Analytical Engine'] }),
    author: Line(1, 200, { examples: ['Ada Lovelace'] }),
    genre: Type.Optional(Line(1, 50, { examples: ['mathematics'] })),
  }),
  filters: ['genre', 'author'],
  search: ['title'],
  sorts: ['title', 'author'],
  links: ({ id, author }) => ({
    self: { href: `/books/${id}` },
    update: { href: `/books/${id}`, method: 'PUT' },
    delete: { href: `/books/${id}`, method: 'DELETE' },
    author: { href: `/books?author=${encodeURIComponent(String(author))}` },
  }),
})
