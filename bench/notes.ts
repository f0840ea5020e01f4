import { collection, service, Title, Type } from 'plinth'

export const notes = collection({ path: '/notes', noun: 'note', body: Type.Object({ name: Title }) })

/** A service without hooks, the reference for `hooked-notes.ts`. */
export default service({ resources: [notes] })
