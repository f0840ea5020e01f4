import { load } from './code.js'

// The public API, declared in src/plinth.ts.
export const {
  books,
  collection,
  Day,
  Decimal,
  DefinitionError,
  Email,
  File,
  Instant,
  Line,
  Money,
  Name,
  plinth,
  Price,
  products,
  Ref,
  report,
  service,
  Text,
  Title,
  Type,
  Url,
  users,
  view,
} = await load('plinth')
