document.title = 'Windlass';
