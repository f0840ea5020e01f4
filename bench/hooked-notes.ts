import { hooks, refuse, service } from 'plinth'
import { notes } from './notes.ts'

const checked = hooks(notes, {
  created: ({ id, name }) => {
    if (id < 1) throw refuse('name', `${name} is not stored`)
  },
})

/** The service of `notes.ts` with a `created` hook. */
export default service({ resources: [notes], code: { checked } })
