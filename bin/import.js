import { load } from './code.js'

// What `import … from 'plinth'` gives; src/plinth.ts says what it is.
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
