import { load } from './code.js'

// The API of `plinth/testing`, declared in src/testing/testing.ts.
export const { testService } = await load('testing/testing')
