   Nothing is allocated, nothing but these arguments is read or written: callers with arenas of their
   own may run at the same time. An arena for several workers has @UPPER@_WORKER_BYTES more for
   each but the first, and @UPPER@_ALIGNMENT more where its address is no multiple of that.

   A result other than 0 says that nothing was computed, and @NAME@_status_text what happened.