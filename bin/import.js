import { load } from './code.js'

// The public API, declared in src/plinth.ts.
export const {
  books,
  collection,
  Day,
  DefinitionError,
  Email,
  Instant,
  Line,
  Name,
  Price,
  products,
  service,
  Text,
  Title,
  Type,
  Url,
  users,
} = await load('plinth')
