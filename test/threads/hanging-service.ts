import { isMainThread } from 'node:worker_threads'
import { collection, service, Type } from 'plinth'

// The main thread loads the definition too.
if (isMainThread) setTimeout(() => void Promise.reject(new Error('rejected in the main thread')), 1_000)

const fail = () => {
  throw new Error('crashed outside of a request')
}

/** For a note named `hang`, the derived field blocks its thread forever. For `crash`, it throws outside the request. */
const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ name: Type.String({ minLength: 1, maxLength: 40 }) }),
  derived: {
    length: {
      body: Type.Integer(),
      from: ({ name }) => {
        if (name === 'crash') setImmediate(fail)
        while (name === 'hang');
        return name.length
      },
    },
  },
})

export default service({ resources: [notes] })
