import { Type } from 'typebox'

/** The path parameter of a single row. */
export const idParams = Type.Object({
  id: Type.Integer({ minimum: 1, description: 'Assigned by the service', examples: [1] }),
})
